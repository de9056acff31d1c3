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

// The limits of a request and of the engine.
struct EngineLimits {
  uint32_t n_ctx_max = 0;
  uint32_t n_vocab = 0;
  uint64_t kv_tokens = 0;  // tokens that the KV budget holds
  uint32_t max_queue = 0;
  // Sequences that run at the same time; 0: no limit, because no layer has a recurrent state.
  uint32_t n_states = 0;
  uint32_t n_tenants = 1;  // configured tenants
};

// One step, as planned and as measured.
struct StepRecord {
  uint32_t n_sequences = 0;
  uint32_t n_decode_rows = 0;
  uint32_t n_prefill_rows = 0;
  uint32_t n_drafted = 0;   // draft tokens among the decode rows
  uint32_t n_accepted = 0;  // accepted draft tokens
  double planned_ms = 0;    // by the cost model
  double ms = 0;
};

// Histograms of all requests since the start. Times are in seconds.
struct EngineHistograms {
  Histogram queue_s{1e-4};    // submission to the first step
  Histogram ttft_s{1e-4};     // submission to the first token
  Histogram prefill_s{1e-4};  // first step to the first token
  Histogram itl_s{1e-4};      // one token to the next
  Histogram decode_s{1e-4};   // first token to the last
  Histogram e2e_s{1e-4};      // submission to the end, for any finish reason
  Histogram step_s{1e-4};
  Histogram batch_sequences{1};
  Histogram batch_rows{1};
  Histogram pages_in_use{1};  // leased and sealed, after each step
};

// The pages of one layer group, by state. Free pages belong to no group.
struct GroupPages {
  uint32_t window = 0;  // tokens that its attention sees; 0: all
  PageCounts pages;
};

// The engine's state between two steps, by value, for monitoring.
struct EngineSnapshot {
  uint32_t n_waiting = 0;
  uint32_t n_held = 0;  // of these, held by the WorkingSet
  uint32_t n_running = 0;
  PageCounts pages;
  uint64_t page_bytes = 0;
  uint32_t n_groups = 0;
  std::array<GroupPages, kMaxLayerGroups> groups{};  // the first n_groups are used
  uint64_t kv_budget_bytes = 0;
  std::array<uint64_t, kMemoryKinds> kv_bytes{};  // parts of the budget, by MemoryKind
  AllTierCounters tiers;
  std::optional<PageLogCounts> page_log;  // absent without a page log
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed tokens
  uint64_t cached_tokens = 0;  // tokens from the cache
  uint64_t generated_tokens = 0;
  SpeculationCounters speculation;
  uint64_t preemptions = 0;
  uint64_t evictions = 0;          // of pages
  uint64_t snapshots = 0;          // state snapshots kept so far
  PageCounts snapshot_pages = {};  // part of `pages`
  RunningStep running_step = {};
  double running_step_s = 0;  // time since the start of the step being computed
  double last_step_ms = 0;
  StepRecord last_step;
  EngineHistograms histograms;
  std::array<uint64_t, kFinishReasons> finished{};  // requests, by FinishReason
  double queue_wait_s = 0;  // expected wait of a new request for its first step

  uint64_t n_finished(FinishReason reason) const { return finished[static_cast<size_t>(reason)]; }
};

}  // namespace kvik
