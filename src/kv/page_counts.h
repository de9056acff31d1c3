#pragma once

#include <cstdint>

namespace kvik {

// Number of a pool's pages by state; the four states add up to all pages.
struct PageCounts {
  uint32_t free = 0;
  uint32_t leased = 0;
  uint32_t sealed = 0;
  uint32_t cached = 0;

  uint32_t total() const { return free + leased + sealed + cached; }
};

// Contents and losses of a PageLog.
struct PageLogCounts {
  uint64_t n_subscribers = 0, n_replay_readers = 0;  // connections
  uint64_t n_waiting = 0;                            // events not sent yet
  uint64_t n_resets = 0;        // times that the queue was full and subscribers had to start again
  uint64_t n_lost_batches = 0;  // batches lost because subscribers were too slow
  // Approximate memory of the keys held, of waiting events, of the newest batches and of
  // connections.
  uint64_t held_bytes = 0, waiting_bytes = 0, batch_bytes = 0, connection_bytes = 0;
  uint64_t max_bytes = 0;
};

}  // namespace kvik
