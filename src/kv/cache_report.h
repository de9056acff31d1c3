#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/token_id.h"

namespace kvik {

// Why the tokens behind the found prefix of a prompt had to be computed.
enum class MissReason : uint8_t {
  kNone,          // nothing was missing: all but the last token, which is always computed
  kNeverSeen,     // no sequence went on from the found prefix
  kDiverged,      // one did, but with another token at `position`
  kEvicted,       // its pages were known, and made room for others
  kTooShort,      // one ended there
  kNoSnapshot,    // they have K and V; the nearest snapshot to continue from is earlier
  kTierTimedOut,  // a slower tier may hold it, and took longer than computing would have
  kTierDeclined,  // a slower tier may hold it, and is known to be slower than computing
  kTierDamaged,   // a slower tier holds it and a check failed
  kCacheOff,      // the request asked for none
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
    case MissReason::kCacheOff:
      break;
  }
  return "cache_off";
}

// What the cache held of one prompt: tokens found by tier, and why the rest was not.
struct CacheReport {
  uint32_t ram_tokens = 0;
  uint32_t tier_tokens = 0;
  MissReason miss = MissReason::kNone;
  std::optional<uint32_t> position;  // of the first token that was not found
  // Where the prompt left the known sequence (kDiverged): the token that this one went on with, and
  // the prompt's own.
  std::optional<TokenId> expected;
  std::optional<TokenId> got;
};

}  // namespace kvik
