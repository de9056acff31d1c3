#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "tier/folder_names.h"
#include "tier/folder_sweep.h"
#include "tier/page_record.h"
#include "tier/shared_folder.h"
#include "tier/tier.h"

namespace kvik {

struct FolderTierOptions {
  std::string folder;  // folder that every server mounts
  uint64_t max_bytes = uint64_t{100} << 30;
  unsigned mode = 0700;  // of folders; files get the same without the execute bits
  // Key that seals the marks of pages (page_record.h); empty: every mark is trusted.
  std::string mark_key = {};
};

// Stores pages in a folder that several machines mount (NFS, CephFS). Each page is a file that
// consists of a record head and the page's bytes (page_record.h):
//
//   kv / two digits / name of parent and group / name of page and group
//
// Listing a page's folder gives its children, and one rename publishes file and name at once. Names
// are keyed hashes (FolderNames). Files are replaced as a whole, never modified, and there is
// neither an index nor a lock that could outlive a dead machine. The holder of the sweep lease
// removes the least recently used files (FolderSweep), and the folder pages/ of earlier versions:
// names in it reveal tokens.
//
// Pages are checked like those of DiskTier. Any thread.
class FolderTier final : public Tier {
 public:
  explicit FolderTier(FolderTierOptions options);

  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot, size_t n_bytes) override;
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override;
  Result<void> put(std::span<Put> pages) override;
  Result<void> recover() override;
  Result<void> tidy_up() override;
  // Returns the counts of the last sweep plus what was written since.
  TierSize size() const override;

  size_t head_bytes() const override;
  size_t alignment() const override { return 64; }
  size_t slot_bytes(size_t n_page_bytes) const override;

 private:
  std::optional<std::string> path_of(const TierPage& page);
  std::optional<RecordHead> head_of(const std::string& path) const;
  Result<void> put_one(Put& put);

  const FolderTierOptions options_;
  const SharedFolder files_;
  FolderNames names_;
  FolderSweep sweep_;    // used by the writing thread only
  TimePoint names_due_;  // when the secret of the names is read again; writing thread only
  std::atomic<uint64_t> n_pages_ = 0;
  std::atomic<uint64_t> n_bytes_ = 0;
  std::atomic<uint64_t> n_evictions_ = 0;
};

}  // namespace kvik
