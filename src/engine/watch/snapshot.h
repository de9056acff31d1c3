#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/histogram.h"
#include "engine/request/request.h"
#include "engine/speculate/speculation_counters.h"
#include "engine/watch/step_hooks.h"
#include "kv/memory_kind.h"
#include "kv/page_counts.h"
#include "model/max_layer_groups.h"
#include "tier/tier_counters.h"

namespace kvik {

// What a request may be at most.
struct EngineLimits {
  uint32_t n_ctx_max = 0;
  uint32_t n_vocab = 0;
  uint64_t kv_tokens = 0;  // what the budget holds
  uint32_t max_queue = 0;
  uint32_t n_states = 0;   // sequences that run at once; 0: no limit, layers have K and V alone
  uint32_t n_tenants = 1;  // that the operator named
};

// One step as it was planned and as it went.
struct StepRecord {
  uint32_t n_sequences = 0;
  uint32_t n_decode_rows = 0;
  uint32_t n_prefill_rows = 0;
  uint32_t n_drafted = 0;   // of the decode rows: guesses
  uint32_t n_accepted = 0;  // of these: right
  double planned_ms = 0;    // by the cost model
  double ms = 0;
};

// Of all requests since the start. Times in seconds.
struct EngineHistograms {
  Histogram queue_s{1e-4};    // submission to the first step
  Histogram ttft_s{1e-4};     // submission to the first token
  Histogram prefill_s{1e-4};  // first step to the first token
  Histogram itl_s{1e-4};      // one token to the next
  Histogram decode_s{1e-4};   // first token to the last
  Histogram e2e_s{1e-4};      // submission to the end, whatever the end
  Histogram step_s{1e-4};
  Histogram batch_sequences{1};
  Histogram batch_rows{1};
  Histogram pages_in_use{1};  // leased and sealed, after each step
};

// The pages that one layer group has, by state; free ones belong to none.
struct GroupPages {
  uint32_t window = 0;  // tokens that its attention sees; 0: all
  PageCounts pages;
};

// The engine's state between two steps, by value, for whoever shows it.
struct EngineSnapshot {
  uint32_t n_waiting = 0;
  uint32_t n_running = 0;
  PageCounts pages;
  uint64_t page_bytes = 0;
  uint32_t n_groups = 0;
  std::array<GroupPages, kMaxLayerGroups> groups{};  // the first n_groups
  uint64_t kv_budget_bytes = 0;
  std::array<uint64_t, kMemoryKinds> kv_bytes{};  // of the budget, by MemoryKind
  AllTierCounters tiers;
  std::optional<PageLogCounts> page_log;  // where there is one
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t cached_tokens = 0;  // found
  uint64_t generated_tokens = 0;
  SpeculationCounters speculation;
  uint64_t preemptions = 0;
  uint64_t evictions = 0;          // pages
  uint64_t snapshots = 0;          // of states, kept so far
  PageCounts snapshot_pages = {};  // of `pages`
  RunningStep running_step = {};
  double running_step_s = 0;  // how long it has been computed
  double last_step_ms = 0;
  StepRecord last_step;
  EngineHistograms histograms;
  std::array<uint64_t, kFinishReasons> finished{};  // requests, by FinishReason
  double queue_wait_s = 0;  // a new request would wait about this long for its first step

  uint64_t n_finished(FinishReason reason) const { return finished[static_cast<size_t>(reason)]; }
};

}  // namespace kvik
