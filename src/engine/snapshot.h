#pragma once

#include <cstdint>

#include "kv/page_counts.h"

namespace kvik {

// What a request may be at most.
struct EngineLimits {
  uint32_t n_ctx_max = 0;
  uint32_t n_vocab = 0;
  uint64_t kv_tokens = 0;  // what the budget holds
  uint32_t max_queue = 0;
};

// The engine's state between two steps, by value, for whoever shows it.
struct EngineSnapshot {
  uint32_t n_waiting = 0;
  uint32_t n_running = 0;
  PageCounts pages;
  uint64_t page_bytes = 0;
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t cached_tokens = 0;  // found
  uint64_t generated_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t evictions = 0;  // pages
  double last_step_ms = 0;
};

}  // namespace kvik
