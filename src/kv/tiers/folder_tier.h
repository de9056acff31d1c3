#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "kv/tiers/folder_sweep.h"
#include "kv/tiers/shared_folder.h"
#include "kv/tiers/tier.h"

namespace kvik {

struct FolderTierOptions {
  std::string folder;  // that every server mounts
  uint64_t max_bytes = uint64_t{100} << 30;
};

// Pages in a folder that several machines mount (NFS, CephFS). A page is a file, its head in front
// of its bytes (page_record.h):
//
//   pages / two digits / PARENT-GROUP / TOKENS
//
// so that a page's folder lists what may stand behind its parent, and one rename publishes both.
// Files never change; there is no index, and no lock that a machine could take with it when it
// dies. Who holds the lease of the sweep removes what was not used for longest (FolderSweep).
//
// What is read is checked like a page of a disk. Any thread: it holds no state but counts.
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
  std::string folder_of(const PageKey& parent, uint32_t group) const;
  std::string name_of(const TierPage& page) const;
  std::optional<KnownBy> mark_of(const std::string& name) const;

  const FolderTierOptions options_;
  const SharedFolder files_;
  FolderSweep sweep_;  // of the writing thread
  std::atomic<uint64_t> n_pages_ = 0;
  std::atomic<uint64_t> n_bytes_ = 0;
  std::atomic<uint64_t> n_evictions_ = 0;
};

}  // namespace kvik
