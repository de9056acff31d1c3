#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvik {

// Kinds of storage for pages outside memory, in the order in which they are queried.
enum class TierKind : uint8_t { kDisk, kSharedFolder, kRedis };
inline constexpr size_t kTierKinds = 3;
constexpr const char* to_string(TierKind kind) {
  constexpr const char* kNames[kTierKinds] = {"disk", "shared", "redis"};
  return kNames[static_cast<size_t>(kind)];
}

// Contents of a tier.
struct TierSize {
  uint64_t n_pages = 0;
  uint64_t n_bytes = 0;  // reserved for pages
  uint64_t n_evictions = 0;
};

// Counters of the traffic between memory and one tier so far.
struct TierCounters {
  bool is_on = false;
  bool is_degraded = false;  // the last write failed; retried with growing pauses
  TierSize size;
  uint64_t pages_written = 0;
  uint64_t bytes_written = 0;
  uint64_t pages_read = 0;
  uint64_t bytes_read = 0;
  uint64_t hit_tokens = 0;     // prompt tokens fetched from this tier
  uint64_t misses_absent = 0;  // fetches that ended before the prompt did, by reason
  uint64_t misses_damaged = 0;
  uint64_t misses_failed = 0;     // the device failed
  uint64_t misses_timed_out = 0;  // the fetch exceeded its time limit
  uint64_t misses_declined = 0;   // not queried, because computing was expected to be faster
  uint64_t misses_no_room = 0;    // no page was available for what was read
  uint64_t write_errors = 0;
  uint64_t queue_pages = 0;  // waiting to be written
  uint64_t queue_bytes = 0;
};

using AllTierCounters = std::array<TierCounters, kTierKinds>;  // by TierKind

}  // namespace kvik
