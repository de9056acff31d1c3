#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvik {

// Where pages may lie behind memory, the nearest first: a sequence of tiers is asked in this order.
enum class TierKind : uint8_t { kDisk, kSharedFolder, kRedis };
inline constexpr size_t kTierKinds = 3;
constexpr const char* to_string(TierKind kind) {
  constexpr const char* kNames[kTierKinds] = {"disk", "shared", "redis"};
  return kNames[static_cast<size_t>(kind)];
}

// What a tier holds.
struct TierSize {
  uint64_t n_pages = 0;
  uint64_t n_bytes = 0;  // reserved for them
  uint64_t n_evictions = 0;
};

// What happened between memory and a tier so far; by value, for whoever shows it.
struct TierCounters {
  bool is_on = false;
  bool is_degraded = false;  // the last write failed; retried with growing pauses
  TierSize size;
  uint64_t pages_written = 0;
  uint64_t bytes_written = 0;
  uint64_t pages_read = 0;
  uint64_t bytes_read = 0;
  uint64_t hit_tokens = 0;     // of prompts, found here and not in memory
  uint64_t misses_absent = 0;  // fetches that ended before the prompt did, by reason
  uint64_t misses_damaged = 0;
  uint64_t misses_failed = 0;     // the device
  uint64_t misses_timed_out = 0;  // slower than its deadline
  uint64_t misses_declined = 0;   // not asked: computing was quicker, as far as both are known
  uint64_t misses_no_room = 0;    // memory had no page for what was read
  uint64_t write_errors = 0;
  uint64_t queue_pages = 0;  // waiting to be written
  uint64_t queue_bytes = 0;
};

using AllTierCounters = std::array<TierCounters, kTierKinds>;  // by TierKind

}  // namespace kvik
