#include "tier/prefix_file/used_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "tier/page_record.h"

namespace kvik {

Result<std::unique_ptr<UsedFolder>> UsedFolder::open(const std::string& folder) {
  const std::string path = folder + "/index.db";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    return fail(ErrorCode::kNotFound,
                fmt::format("'{}' is not a cache folder: it has no index.db", folder));
  }
  TRY_ASSIGN(DiskIndex index, DiskIndex::open(path, Sqlite::Mode::kReadOnly));
  TRY_ASSIGN(SegmentFiles files,
             SegmentFiles::open(posix_file_calls(), folder, SegmentFiles::Mode::kReadOnly));
  index.expect_rows(files.n_slots());
  return std::unique_ptr<UsedFolder>(new UsedFolder(std::move(index), std::move(files)));
}

Tier::Get UsedFolder::get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
                          size_t n_bytes) {
  std::optional<DiskIndex::Row> row;
  {
    const MutexLock lock(mutex_);
    auto found = index_.find(wanted.key, wanted.group);
    if (!found) return Get::kFailed;
    row = *found;
  }
  if (!row || !may_hit(reader, row->known)) return Get::kAbsent;
  const SegmentFiles::Segment* segment = files_.find(row->slot.segment);
  const bool is_there =
      segment && row->slot.slot < segment->n_slots && segment->slot_bytes == slot_bytes(n_bytes);
  if (!is_there) return Get::kAbsent;  // in a segment that was added since
  const auto bytes = slot.first(segment->slot_bytes);
  if (!segment->file->read(bytes, row->slot.slot * bytes.size())) return Get::kFailed;
  const auto record = read_record(bytes);
  if (!record || record->page != wanted || record->n_bytes != n_bytes) return Get::kAbsent;
  wanted.known = row->known;
  return Get::kFound;
}

std::vector<Tier::Child> UsedFolder::children(const PageKey& parent, uint32_t group,
                                              SharingMark reader, size_t limit) {
  const MutexLock lock(mutex_);
  auto found = index_.children(parent, group, reader, limit);
  return found ? std::move(*found) : std::vector<Child>();
}

size_t UsedFolder::head_bytes() const { return kRecordHeadBytes; }

size_t UsedFolder::slot_bytes(size_t n_page_bytes) const { return disk_slot_bytes(n_page_bytes); }

}  // namespace kvik
