#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "kv/tiers/disk_tier.h"
#include "main/model_flags.h"

namespace kvik {

// --disk and --disk-size, of every command that keeps pages.
struct DiskOptions {
  std::string folder;  // empty: no disk tier
  uint64_t max_bytes = uint64_t{20} << 30;

  void add_to(Flags& flags);

  // Null where there is none.
  Result<std::unique_ptr<DiskTier>> open() const;
};

// The budget that holds kv_bytes of pages beside what is on its way to and from a tier, if any.
uint64_t kv_budget_beside(const Tier* tier, const LoadedModel& loaded, KvType type,
                          uint64_t kv_bytes);

}  // namespace kvik
