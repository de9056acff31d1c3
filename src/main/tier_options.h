#pragma once

#include <algorithm>
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

// Time limit for tiers to store pending pages when the process ends.
inline constexpr std::chrono::seconds kTierTime = kFlushTime;

// The tiers outside memory, nearest first.
class OpenTiers {
 public:
  void add(TierKind kind, std::unique_ptr<Tier> tier,
           TierPlace::Save save = TierPlace::Save::kWhenSealed) {
    places_.push_back({kind, tier.get(), save});
    tiers_.push_back(std::move(tier));
  }
  const std::vector<TierPlace>& places() const { return places_; }
  // Returns the time limit for storing pages when the process ends.
  std::chrono::seconds end_time() const {
    const auto is_at_end = [](const TierPlace& p) { return p.save == TierPlace::Save::kAtEnd; };
    return std::ranges::any_of(places_, is_at_end) ? kFlushTime + kSaveAllTime : kFlushTime;
  }

 private:
  std::vector<std::unique_ptr<Tier>> tiers_;
  std::vector<TierPlace> places_;
};

// The flags --disk, --shared and --redis, for every command with a cache.
struct TierOptions {
  std::string disk;  // empty: no disk tier
  uint64_t disk_bytes = uint64_t{20} << 30;
  std::string disk_write = "sealed";
  std::string shared;  // empty: no shared folder
  uint64_t shared_bytes = uint64_t{100} << 30;
  std::string shared_mode = "700";  // mode of created folders, in octal
  std::string redis;                // empty: no Redis

  void add_to(Flags& flags);

  // Opens the tiers. mark_key: authenticates the tenant marks of pages in tiers that other machines
  // can write; empty: not authenticated.
  Result<OpenTiers> open(std::string_view mark_key = {}) const;
};

}  // namespace kvik
