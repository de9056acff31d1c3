#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "tier/aligned_bytes.h"
#include "tier/disk_tier.h"
#include "tier/page_record.h"

// Maintenance of a DiskTier by `kvik cache`, while no server uses it.
namespace kvik {

Result<DiskTier::Verification> DiskTier::verify() {
  const MutexLock puts(put_mutex_);
  const MutexLock lock(mutex_);
  TRY(check_folder());
  Verification result;
  for (const auto& [id, segment] : folder_->files->segments()) {
    const AlignedBytes slot(segment.slot_bytes, SegmentFiles::kAlignment);
    TRY_ASSIGN(const auto rows, folder_->index->rows_of_segment(id));
    for (const DiskIndex::Row& row : rows) {
      ++result.n_pages;
      const bool is_read =
          row.slot.slot < segment.n_slots &&
          segment.file->read(slot.span(), row.slot.slot * segment.slot_bytes).has_value();
      const auto record = is_read ? read_record(slot.span()) : std::nullopt;
      if (record && record->page.key == row.key && record->page.group == row.group &&
          record->page.parent == row.parent && record->n_bytes == row.n_bytes &&
          child_key(record->page.parent, record->page.tokens) == row.key) {
        continue;
      }
      ++result.n_damaged;
      forget({.root = {}, .parent = {}, .key = row.key, .group = row.group, .tokens = {}},
             row.slot);
    }
  }
  // Rows that refer to no existing segment.
  TRY_ASSIGN(const DiskIndex::Totals totals, folder_->index->totals());
  const uint64_t n_whole = result.n_pages - result.n_damaged;
  if (totals.n_pages > n_whole) {
    result.n_pages += totals.n_pages - n_whole;
    result.n_damaged += totals.n_pages - n_whole;
    TRY(rebuild_index());
  }
  return result;
}

Result<uint64_t> DiskTier::collect_garbage() {
  const MutexLock puts(put_mutex_);
  const MutexLock lock(mutex_);
  TRY(check_folder());
  const uint64_t before = folder_->files->n_bytes();
  std::vector<uint32_t> empty;
  for (const auto& [id, segment] : folder_->files->segments()) {
    TRY_ASSIGN(const auto last_use, folder_->index->last_use_of_segment(id));
    if (!last_use) empty.push_back(id);
  }
  for (const uint32_t id : empty) TRY(drop_segment(id));
  TRY(folder_->index->compact());
  return before - folder_->files->n_bytes();
}

Result<void> DiskTier::trim_to(uint64_t n_bytes) {
  const MutexLock puts(put_mutex_);
  const MutexLock lock(mutex_);
  TRY(check_folder());
  std::vector<std::pair<uint64_t, uint32_t>> by_use;  // last use (0: empty) and segment
  for (const auto& [id, segment] : folder_->files->segments()) {
    TRY_ASSIGN(const auto last_use, folder_->index->last_use_of_segment(id));
    by_use.emplace_back(last_use.value_or(0), id);
  }
  std::ranges::sort(by_use);
  TRY(change_index([&]() REQUIRES(mutex_) -> Result<void> {
    for (const auto& [last_use, id] : by_use) {
      if (n_bytes_ > n_bytes) TRY(drop_segment(id));
    }
    return {};
  }));
  return folder_->index->compact();
}

Result<DiskTierReport> inspect_disk_tier(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(folder + "/index.db", ignored)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("'{}' is not a cache folder: it has no index.db", folder));
  }
  TRY_ASSIGN(auto index, DiskIndex::open(folder + "/index.db", Sqlite::Mode::kReadOnly));
  TRY_ASSIGN(const auto files,
             SegmentFiles::open(posix_file_calls(), folder, SegmentFiles::Mode::kReadOnly));
  index.expect_rows(files.n_slots());
  DiskTierReport report;
  TRY_ASSIGN(report.totals, index.totals());
  report.n_segments = files.segments().size();
  report.segment_bytes = files.n_bytes();
  const FileDescriptor lock(
      ::open((folder + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  report.is_locked = lock.is_open() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
  return report;
}

}  // namespace kvik
