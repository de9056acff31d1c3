#pragma once

#include <cstdint>

namespace kvik {

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
  uint64_t misses_no_room = 0;    // memory had no page for what was read
  uint64_t write_errors = 0;
  uint64_t queue_pages = 0;  // waiting to be written
  uint64_t queue_bytes = 0;
};

}  // namespace kvik
