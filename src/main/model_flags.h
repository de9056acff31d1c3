#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "host/load_model.h"
#include "kv/tiers/disk_tier.h"
#include "main/flags.h"

namespace kvik {

// MODEL and the flags of every command that computes; KVIK_ISA.
void add_model_flags(Flags& flags, ModelOptions& options);

// --disk and --disk-size, of every command that keeps pages.
struct DiskOptions {
  std::string folder;  // empty: no disk tier
  uint64_t max_bytes = uint64_t{20} << 30;

  void add_to(Flags& flags);

  // Null where there is none.
  Result<std::unique_ptr<DiskTier>> open() const;
};

// "1,2,3" → ids. A bad list is kInvalidArgument.
Result<std::vector<TokenId>> parse_token_list(const std::string& text);

}  // namespace kvik
