#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file/file_descriptor.h"
#include "base/mutex.h"
#include "tier/disk_index.h"
#include "tier/segment_files.h"
#include "tier/tier.h"

namespace kvik {

struct DiskTierOptions {
  std::string folder;
  uint64_t max_bytes = uint64_t{20} << 30;
};

// Stores pages in a folder: contents in segment files, the index in SQLite, and a lock file against
// other processes. A page's contents are on the device before its row is in the index, and its row
// is removed before another page takes its slot, so that the process may be killed at any point.
// Contents are checked against record head and checksum; the index is only a hint, and is rebuilt
// from the heads if it is damaged.
//
// Holds at most max_bytes; beyond that the least recently used page without children is evicted.
//
// Any thread: one mutex guards the index and the tables, and is not held while pages are read or
// written.
class DiskTier final : public Tier {
 public:
  // Opens the folder, and creates it if necessary with access for the user only. Errors:
  // kUnavailable if another process has it, kInvalidArgument if max_bytes is less than 4 MiB, kIo.
  static Result<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options,
                                                FileCalls& calls = posix_file_calls());
  ~DiskTier() override;

  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot, size_t n_bytes) override;
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override;
  Result<void> put(std::span<Put> pages) override;
  Result<void> recover() override;
  Result<void> tidy_up() override;
  TierSize size() const override;

  size_t head_bytes() const override;
  size_t alignment() const override { return SegmentFiles::kAlignment; }
  size_t slot_bytes(size_t n_page_bytes) const override;

  // Reads every page and removes those that fail a check from the index.
  struct Verification {
    uint64_t n_pages = 0;
    uint64_t n_damaged = 0;
  };
  Result<Verification> verify();
  // Removes empty segments and compacts the index. Returns the number of bytes freed.
  Result<uint64_t> collect_garbage();
  // Removes segments, the least recently used first, until the others have at most n_bytes.
  Result<void> trim_to(uint64_t n_bytes);
  // Removes all pages.
  Result<void> clear() { return trim_to(0); }

 private:
  // The open files of the folder. They are opened and closed together, the lock last.
  struct Folder {
    FileDescriptor lock;
    std::optional<SegmentFiles> files;
    std::optional<DiskIndex> index;
  };
  struct Placed {
    Put* put;
    SlotId slot;
    uint64_t slot_bytes;
    SegmentFiles::Segment segment;
  };

  DiskTier(DiskTierOptions options, FileCalls& calls)
      : options_(std::move(options)), calls_(calls) {}

  Result<void> open_folder() REQUIRES(mutex_);
  Result<void> lock_folder() REQUIRES(mutex_);
  Result<void> load_index() REQUIRES(mutex_);
  Result<DiskIndex> open_index() REQUIRES(mutex_);
  Result<void> rebuild_index() REQUIRES(mutex_);
  Result<void> index_segment(uint32_t id, std::span<std::byte> head) REQUIRES(mutex_);
  Result<void> read_index() REQUIRES(mutex_);
  Result<void> check_folder() const REQUIRES(mutex_);
  Result<void> probe() const;
  Error restore(const Error& error) REQUIRES(mutex_);
  std::string path_of(const char* name) const { return options_.folder + "/" + name; }

  Result<std::vector<Placed>> place(std::span<Put> pages) REQUIRES(mutex_);
  Result<bool> is_known(const TierPage& page) REQUIRES(mutex_);
  Result<bool> has_parent(const TierPage& page, std::span<const Placed> placed) REQUIRES(mutex_);
  Result<std::optional<SlotId>> find_free(uint64_t slot_bytes) REQUIRES(mutex_);
  Result<std::optional<SlotId>> make_room(uint64_t slot_bytes, std::span<Put> pages)
      REQUIRES(mutex_);
  std::optional<SlotId> take_free_slot(uint64_t slot_bytes) REQUIRES(mutex_);
  Result<void> add_segment(uint64_t slot_bytes) REQUIRES(mutex_);
  Result<std::optional<DiskIndex::Row>> oldest_leaf(uint64_t slot_bytes, std::span<Put> pages)
      REQUIRES(mutex_);
  Result<std::optional<uint32_t>> stale_segment(uint64_t slot_bytes, uint64_t before)
      REQUIRES(mutex_);
  Result<void> change_index(const std::function<Result<void>()>& change) REQUIRES(mutex_);
  Result<void> drop_segment(uint32_t id) REQUIRES(mutex_);
  Result<void> drop_rows(uint32_t segment) REQUIRES(mutex_);
  Result<void> drop_row(const DiskIndex::Row& row) REQUIRES(mutex_);
  Result<void> write(std::span<const Placed> placed);
  Result<void> insert(std::span<const Placed> placed) REQUIRES(mutex_);
  void give_back(std::span<const Placed> placed) REQUIRES(mutex_);
  void touch(const TierPage& page) REQUIRES(mutex_);
  Result<void> write_touches() REQUIRES(mutex_);
  void forget(const TierPage& page, SlotId slot) REQUIRES(mutex_);

  const DiskTierOptions options_;
  FileCalls& calls_;

  Mutex put_mutex_ ACQUIRED_BEFORE(mutex_);  // one put at a time
  mutable Mutex mutex_;
  std::unique_ptr<Folder> folder_ GUARDED_BY(mutex_);
  std::map<uint64_t, std::vector<SlotId>> free_slots_ GUARDED_BY(mutex_);  // by slot size in bytes
  std::vector<SlotId> reading_ GUARDED_BY(mutex_);    // must not be overwritten
  std::vector<uint32_t> dropped_ GUARDED_BY(mutex_);  // segments removed in this transaction
  std::vector<std::pair<PageKey, uint32_t>> touched_
      GUARDED_BY(mutex_);  // uses by (key, group) that are not yet in the index
  uint64_t tick_ GUARDED_BY(mutex_) = 1;
  bool is_device_full_ GUARDED_BY(mutex_) = false;

  // Readable without the mutex, which may be held while the device is slow.
  std::atomic<uint64_t> n_pages_ = 0;
  std::atomic<uint64_t> n_bytes_ = 0;
  std::atomic<uint64_t> n_evictions_ = 0;
};

// Report for `kvik cache stat`, which can be made while another process uses the folder.
struct DiskTierReport {
  DiskIndex::Totals totals;
  uint64_t n_segments = 0;
  uint64_t segment_bytes = 0;
  bool is_locked = false;
};
Result<DiskTierReport> inspect_disk_tier(const std::string& folder);

}  // namespace kvik
