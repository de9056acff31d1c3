#include "tier/disk_tier.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/file/private_files.h"
#include "base/log.h"
#include "base/quantity.h"
#include "tier/aligned_bytes.h"
#include "tier/page_record.h"

namespace kvik {
namespace {

constexpr uint64_t kMinBytes = uint64_t{4} << 20;
constexpr uint64_t kProbeBytes = uint64_t{1} << 20;
constexpr size_t kMaxTouched = 65536;
constexpr const char* kIndexName = "index.db";
constexpr const char* kIndexEndings[] = {"", "-wal", "-shm", "-journal"};
constexpr const char* kLockName = "lock";
constexpr uint64_t kMaxTick = uint64_t{1} << 62;

std::unexpected<Error> failed(int error, const char* what, const std::string& path) {
  return fail(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path, std::strerror(error)));
}

// Warns if other users can write to the folder: checksums detect accidents, not forged pages.
void warn_of_other_writers(const std::string& folder) {
  struct stat about {};
  if (::stat(folder.c_str(), &about) != 0 || (about.st_mode & (S_IWGRP | S_IWOTH)) == 0) return;
  log::warn("disk tier: other users can write to '{}' and so alter answers; run chmod 700 on it",
            folder);
}

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(const DiskTierOptions& options, FileCalls& calls) {
  if (options.max_bytes < kMinBytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("the disk tier's size is {}, expected at least {}",
                            format_bytes(options.max_bytes), format_bytes(kMinBytes)));
  }
  std::unique_ptr<DiskTier> tier(new DiskTier(options, calls));
  const MutexLock lock(tier->mutex_);
  TRY(tier->open_folder());
  return tier;
}

DiskTier::~DiskTier() {
  const MutexLock lock(mutex_);
  // A lost note only makes a page look less recently used.
  if (folder_ && folder_->index) static_cast<void>(write_touches());
}

Result<void> DiskTier::open_folder() {
  folder_ = std::make_unique<Folder>();
  if (const Result<void> locked = lock_folder(); !locked) {
    folder_.reset();
    return locked;
  }
  auto files = SegmentFiles::open(calls_, options_.folder, SegmentFiles::Mode::kReadWrite);
  if (!files) {
    folder_.reset();
    return std::unexpected<Error>(files.error());
  }
  folder_->files = std::move(*files);
  n_bytes_ = folder_->files->n_bytes();
  Result<void> done = load_index();
  if (!done && done.error().code == ErrorCode::kCorrupt) done = rebuild_index();
  if (!done) folder_.reset();
  return done;
}

Result<void> DiskTier::lock_folder() {
  TRY(make_private_folders(options_.folder));
  const std::string path = path_of(kLockName);
  // The lock file is never written, and another process may hold it, so an existing file is kept.
  struct stat there {};
  const bool is_file = ::lstat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode);
  if (!is_file) TRY(prepare_private_file(path));
  folder_->lock =
      FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivateFile));
  if (!folder_->lock.is_open()) return failed(errno, "create", path);
  const bool is_ours = is_file && there.st_nlink == 1;
  if (is_ours) static_cast<void>(::fchmod(folder_->lock.get(), kPrivateFile));
  if (::flock(folder_->lock.get(), LOCK_EX | LOCK_NB) == 0) {
    warn_of_other_writers(options_.folder);
    return {};
  }
  if (errno != EWOULDBLOCK) return failed(errno, "lock", path);
  return fail(ErrorCode::kUnavailable,
              fmt::format("the cache folder '{}' is in use by another process; each needs its own",
                          options_.folder));
}

// Errors: kCorrupt if the index is missing although there are pages.
Result<void> DiskTier::load_index() {
  const std::string path = path_of(kIndexName);
  for (const char* ending : kIndexEndings) TRY(prepare_private_file(path + ending));
  struct stat there {};
  if (folder_->files->n_slots() > 0 && ::stat(path.c_str(), &there) != 0) {
    return fail(ErrorCode::kCorrupt, fmt::format("there is no '{}'", path));
  }
  TRY_ASSIGN(folder_->index, open_index());
  return read_index();
}

// SQLite creates its additional files with the permissions of the database file.
Result<DiskIndex> DiskTier::open_index() {
  const std::string path = path_of(kIndexName);
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  if (!FileDescriptor(::open(path.c_str(), flags, kPrivateFile)).is_open()) {
    return failed(errno, "create", path);
  }
  TRY_ASSIGN(DiskIndex index, DiskIndex::open(path, Sqlite::Mode::kReadWrite));
  index.expect_rows(folder_->files->n_slots());
  return index;
}

// Reads counts and slots from the index. Errors: kCorrupt if they are inconsistent.
Result<void> DiskTier::read_index() {
  TRY_ASSIGN(const DiskIndex::Totals totals, folder_->index->totals());
  if (totals.last_use > kMaxTick) {
    return fail(ErrorCode::kCorrupt, fmt::format("the index of '{}' has the invalid use counter {}",
                                                 options_.folder, totals.last_use));
  }
  n_pages_ = totals.n_pages;
  tick_ = totals.last_use + 1;
  free_slots_.clear();
  for (const auto& [id, segment] : folder_->files->segments()) {
    TRY_ASSIGN(const auto rows, folder_->index->rows_of_segment(id));
    std::vector<bool> is_taken(segment.n_slots);
    for (const DiskIndex::Row& row : rows) {
      if (row.slot.slot < segment.n_slots) is_taken[row.slot.slot] = true;
    }
    for (uint32_t slot = segment.n_slots; slot > 0; --slot) {
      if (!is_taken[slot - 1]) free_slots_[segment.slot_bytes].push_back({id, slot - 1});
    }
  }
  return {};
}

// Rebuilds the index from the heads of all slots. A page that was evicted already may return: its
// contents are still right.
Result<void> DiskTier::rebuild_index() {
  log::warn("disk tier: the index of '{}' is damaged or missing; rebuilding it from the pages",
            options_.folder);
  folder_->index.reset();
  for (const char* ending : kIndexEndings) ::unlink((path_of(kIndexName) + ending).c_str());
  TRY_ASSIGN(folder_->index, open_index());
  const AlignedBytes head(SegmentFiles::kAlignment, SegmentFiles::kAlignment);
  TRY(folder_->index->in_transaction([&]() REQUIRES(mutex_) -> Result<void> {
    for (const auto& [id, segment] : folder_->files->segments())
      TRY(index_segment(id, head.span()));
    return {};
  }));
  return read_index();
}

Result<void> DiskTier::index_segment(uint32_t id, std::span<std::byte> head) {
  const SegmentFiles::Segment& segment = *folder_->files->find(id);
  for (uint32_t slot = 0; slot < segment.n_slots; ++slot) {
    if (!segment.file->read(head, slot * segment.slot_bytes)) continue;
    const auto record = read_record_head(head);
    if (!record || slot_bytes(record->n_bytes) != segment.slot_bytes) continue;
    TRY_ASSIGN(const auto known, folder_->index->find(record->page.key, record->page.group));
    if (known) continue;
    TRY(folder_->index->insert(record->page, {id, slot}, segment.slot_bytes, record->n_bytes,
                               tick_));
  }
  return {};
}

// Rebuilds a damaged index once, because the pages may be intact. Returns the error for the caller.
Error DiskTier::restore(const Error& error) {
  if (error.code != ErrorCode::kCorrupt || !folder_) return error;
  const Result<void> done = rebuild_index();
  if (!done) folder_.reset();
  return done ? error : done.error();
}

Result<void> DiskTier::check_folder() const {
  if (!folder_ || !folder_->index) {
    return fail(ErrorCode::kIo, fmt::format("the folder '{}' is not open", options_.folder));
  }
  struct stat there {};
  struct stat ours {};
  if (::stat(path_of(kLockName).c_str(), &there) == 0 && ::fstat(folder_->lock.get(), &ours) == 0 &&
      there.st_ino == ours.st_ino && there.st_dev == ours.st_dev) {
    return {};
  }
  return fail(ErrorCode::kIo, fmt::format("the folder '{}' was removed", options_.folder));
}

// Checks whether the device accepts writes.
Result<void> DiskTier::probe() const {
  const std::string path = path_of("probe");
  TRY(prepare_private_file(path));
  const FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kPrivateFile));
  if (!file.is_open()) return failed(errno, "create", path);
  int error = calls_.allocate(file.get(), kProbeBytes);
  if (error == 0) error = calls_.sync(file.get());
  ::unlink(path.c_str());
  if (error != 0) return failed(error, "write to", options_.folder);
  return {};
}

Result<void> DiskTier::recover() {
  const MutexLock puts(put_mutex_);
  const MutexLock lock(mutex_);
  if (!check_folder()) {
    folder_.reset();
    free_slots_.clear();
    touched_.clear();
    n_pages_ = n_bytes_ = 0;
    TRY(open_folder());
  }
  return probe();
}

Result<void> DiskTier::tidy_up() {
  const MutexLock puts(put_mutex_);
  const MutexLock lock(mutex_);
  TRY(check_folder());
  if (const Result<void> done = write_touches(); !done) {
    return std::unexpected<Error>(restore(done.error()));
  }
  return {};
}

void DiskTier::touch(const TierPage& page) {
  if (touched_.size() < kMaxTouched) touched_.emplace_back(page.key, page.group);
}

Result<void> DiskTier::write_touches() {
  if (touched_.empty()) return {};
  const uint64_t tick = tick_++;
  const auto touched = std::exchange(touched_, {});
  return folder_->index->in_transaction([&]() REQUIRES(mutex_) -> Result<void> {
    for (const auto& [key, group] : touched) TRY(folder_->index->touch(key, group, tick));
    return {};
  });
}

Tier::Get DiskTier::get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot,
                        size_t n_bytes) {
  MutexLock lock(mutex_);
  if (!folder_ || !folder_->index) return Get::kFailed;
  const auto row = folder_->index->find(wanted.key, wanted.group);
  if (!row) {
    static_cast<void>(restore(row.error()));
    return Get::kFailed;
  }
  if (!*row || !may_hit(reader, (*row)->known)) return Get::kAbsent;
  wanted.known = (*row)->known;
  const SlotId id = (*row)->slot;
  const SegmentFiles::Segment* segment = folder_->files->find(id.segment);
  if (!segment || id.slot >= segment->n_slots || segment->slot_bytes != slot_bytes(n_bytes)) {
    forget(wanted, id);
    return Get::kDamaged;
  }
  const auto file = segment->file;
  const auto bytes = slot.first(segment->slot_bytes);
  reading_.push_back(id);
  lock.unlock();
  const Result<void> done = file->read(bytes, id.slot * bytes.size());
  const auto record = done ? read_record(bytes) : std::nullopt;
  const bool is_right = record && record->page == wanted && record->n_bytes == n_bytes;
  lock.lock();
  reading_.erase(std::ranges::find(reading_, id));
  if (!done) return Get::kFailed;
  if (!is_right) {
    forget(wanted, id);
    return Get::kDamaged;
  }
  touch(wanted);
  return Get::kFound;
}

// Removes a page that failed a check from the index. If that fails too, the next reader finds the
// damage again.
void DiskTier::forget(const TierPage& page, SlotId slot) {
  if (!folder_ || !folder_->index) return;
  const auto row = folder_->index->find(page.key, page.group);
  if (!row || !*row || (*row)->slot != slot) return;
  const auto done = folder_->index->in_transaction(
      [&]() REQUIRES(mutex_) { return folder_->index->remove(**row); });
  if (!done) return;
  --n_pages_;
  const SegmentFiles::Segment* segment = folder_->files->find(slot.segment);
  if (segment && slot.slot < segment->n_slots) free_slots_[segment->slot_bytes].push_back(slot);
}

std::vector<Tier::Child> DiskTier::children(const PageKey& parent, uint32_t group,
                                            SharingMark reader, size_t limit) {
  const MutexLock lock(mutex_);
  if (!folder_ || !folder_->index) return {};
  auto found = folder_->index->children(parent, group, reader, limit);
  if (found) return std::move(*found);
  static_cast<void>(restore(found.error()));
  return {};
}

TierSize DiskTier::size() const {
  return {.n_pages = n_pages_, .n_bytes = n_bytes_, .n_evictions = n_evictions_};
}

size_t DiskTier::head_bytes() const { return kRecordHeadBytes; }

size_t DiskTier::slot_bytes(size_t n_page_bytes) const { return disk_slot_bytes(n_page_bytes); }

}  // namespace kvik
