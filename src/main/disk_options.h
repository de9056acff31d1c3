#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "kv/tiers/tier.h"
#include "main/flags.h"

namespace kvik {

// --disk and --disk-size, of every command that keeps pages.
struct DiskOptions {
  std::string folder;  // empty: no disk tier
  uint64_t max_bytes = uint64_t{20} << 30;

  void add_to(Flags& flags);

  // Null where there is none.
  Result<std::unique_ptr<Tier>> open() const;
};

}  // namespace kvik
