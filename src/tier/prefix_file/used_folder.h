#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "tier/disk_index.h"
#include "tier/segment_files.h"
#include "tier/tier.h"

namespace kvik {

// Reads pages from the folder of a DiskTier that another process has open. Changes nothing: put()
// stores no page, a page that the other process moves or evicts meanwhile is absent, and no use is
// recorded. Any thread.
class UsedFolder final : public Tier {
 public:
  // Errors: kNotFound if the folder has no index; kIo and kCorrupt.
  static Result<std::unique_ptr<UsedFolder>> open(const std::string& folder);

  Get get(TierPage& wanted, SharingMark reader, std::span<std::byte> slot, size_t n_bytes) override;
  std::vector<Child> children(const PageKey& parent, uint32_t group, SharingMark reader,
                              size_t limit) override;
  Result<void> put(std::span<Put>) override { return {}; }
  Result<void> recover() override { return {}; }
  Result<void> tidy_up() override { return {}; }
  TierSize size() const override { return {}; }

  size_t head_bytes() const override;
  size_t alignment() const override { return SegmentFiles::kAlignment; }
  size_t slot_bytes(size_t n_page_bytes) const override;

 private:
  UsedFolder(DiskIndex index, SegmentFiles files)
      : index_(std::move(index)), files_(std::move(files)) {}

  Mutex mutex_;
  DiskIndex index_ GUARDED_BY(mutex_);
  const SegmentFiles files_;
};

}  // namespace kvik
