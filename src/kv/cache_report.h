#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/token_id.h"

namespace kvik {

// Reason why the tokens after the cached prefix of a prompt had to be computed.
enum class MissReason : uint8_t {
  kNone,          // no miss: all tokens were cached but the last, which is always computed
  kNeverSeen,     // no known sequence continues the cached prefix
  kDiverged,      // a known sequence continues it with another token at `position`
  kEvicted,       // the pages were cached and have been evicted
  kTooShort,      // a known sequence ends there
  kNoSnapshot,    // K and V are cached, but the nearest state snapshot is at an earlier position
  kTierTimedOut,  // a tier may have the pages, but took longer than computing would have
  kTierDeclined,  // a tier may have the pages, but is known to be slower than computing
  kTierDamaged,   // a tier has the pages, but a check failed
  kTierFailed,    // a tier may have the pages, but could not be read
  kTierNoRoom,    // a tier may have the pages, but memory had no room for them
  kComputedWhileLoading,  // computed at the same time as a tier delivered the others
  kCacheOff,              // the request turned the cache off
};

inline std::string_view name_of(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "none";
    case MissReason::kNeverSeen:
      return "never_seen";
    case MissReason::kDiverged:
      return "diverged";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kTooShort:
      return "too_short";
    case MissReason::kNoSnapshot:
      return "no_snapshot";
    case MissReason::kTierTimedOut:
      return "tier_timed_out";
    case MissReason::kTierDeclined:
      return "tier_declined";
    case MissReason::kTierDamaged:
      return "tier_damaged";
    case MissReason::kTierFailed:
      return "tier_failed";
    case MissReason::kTierNoRoom:
      return "tier_no_room";
    case MissReason::kComputedWhileLoading:
      return "computed_while_loading";
    case MissReason::kCacheOff:
      break;
  }
  return "cache_off";
}

// Prefix cache result for one prompt: cached tokens by tier, and the reason of the miss.
struct CacheReport {
  uint32_t ram_tokens = 0;
  uint32_t tier_tokens = 0;
  MissReason miss = MissReason::kNone;
  std::optional<uint32_t> position;  // position of the first token that was not cached
  // For kDiverged: the token that the known sequence has at `position`, and the prompt's own.
  std::optional<TokenId> expected;
  std::optional<TokenId> got;
};

}  // namespace kvik
