#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "main/flags.h"
#include "tier/tier.h"

namespace kvik {

// The time that tiers have at the end of a process to store what is on its way to them.
inline constexpr std::chrono::seconds kTierTime{10};

// The tiers behind memory, the nearest first.
class OpenTiers {
 public:
  void add(TierKind kind, std::unique_ptr<Tier> tier) {
    places_.push_back({kind, tier.get()});
    tiers_.push_back(std::move(tier));
  }
  const std::vector<TierPlace>& places() const { return places_; }

 private:
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::vector<TierPlace> places_;
};

// --disk, --shared and --redis, of every command that keeps pages.
struct TierOptions {
  std::string disk;  // empty: no disk tier
  uint64_t disk_bytes = uint64_t{20} << 30;
  std::string shared;  // empty: no shared folder
  uint64_t shared_bytes = uint64_t{100} << 30;
  std::string shared_mode = "700";  // of the folders below it, in octal
  std::string redis;                // empty: no Redis

  void add_to(Flags& flags);

  // mark_key: seals who knows a page in tiers that others may write; empty: nothing does.
  Result<OpenTiers> open(std::string_view mark_key = {}) const;
};

}  // namespace kvik
