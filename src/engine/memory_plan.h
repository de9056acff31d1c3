#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/config.h"
#include "model/weight_plan.h"

namespace kvik {

// The memory that an engine will hold, known before a weight is read. What it says of weights,
// decoder and scratch is what those allocate, to the byte (a test compares them); the bookkeeping
// of pages is an upper bound.
struct MemoryPlan {
  struct Part {
    std::string name;
    uint64_t n_bytes = 0;
  };

  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;      // whole pages of the budget
  std::vector<Part> buffers;  // all else

  uint64_t buffers_bytes() const;
  uint64_t total_bytes() const { return weights_bytes + kv_bytes + buffers_bytes(); }
};

MemoryPlan plan_memory(const ModelConfig& config, const WeightPlan& weights, Backend& backend,
                       const EngineOptions& options);

// What one step of such an engine asks of the backend at most.
WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options);

// Bytes of the pages that hold n_tokens of one sequence.
uint64_t kv_bytes_of_sequence(const ModelConfig& config, const Backend& backend, KvType type,
                              uint64_t n_tokens);

}  // namespace kvik
