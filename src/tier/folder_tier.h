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
  std::string folder;  // that every server mounts
  uint64_t max_bytes = uint64_t{100} << 30;
  unsigned mode = 0700;  // of folders; files get it without the right to execute
  // Seals who knows a page (page_record.h); empty: any mark is believed.
  std::string mark_key = {};
};

// Pages in a folder that several machines mount (NFS, CephFS). A page is a file, its head in front
// of its bytes (page_record.h):
//
//   kv / two digits / name of parent and group / name of page and group
//
// so that a page's folder lists what may follow its parent, and one rename publishes both. Names
// are keyed hashes (FolderNames). Files never change; there is no index, and no lock that a machine
// could take with it when it dies. The holder of the sweep's lease removes what was not used for
// longest (FolderSweep), and what earlier versions stored below pages/, under names that tell the
// tokens.
//
// Pages are checked like those of a disk. Any thread.
class FolderTier final : public Tier {
 public:
  explicit FolderTier(FolderTierOptions options);

  Get get(TierPage& wanted, KnownBy reader, std::span<std::byte> slot, size_t n_bytes) override;
  std::vector<Child> children(const PageKey& parent, uint32_t group, KnownBy reader,
                              size_t limit) override;
  Result<void> put(std::span<Put> pages) override;
  Result<void> recover() override;
  Result<void> tidy_up() override;
  // As the last sweep counted them, and what was written since.
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
  FolderSweep sweep_;    // of the writing thread
  TimePoint names_due_;  // when the secret of the names is read again; of the same thread
  std::atomic<uint64_t> n_pages_ = 0;
  std::atomic<uint64_t> n_bytes_ = 0;
  std::atomic<uint64_t> n_evictions_ = 0;
};

}  // namespace kvik
