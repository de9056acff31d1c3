#pragma once

#include <vector>

#include "engine/engine.h"
#include "model/model.h"

namespace kvik {

// What one step of such an engine asks of the backend at most.
WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options);

// How the model's layers lie in pages of this size, without states.
KvLayout kv_layout(size_t page_bytes, const ModelConfig& config);

// How many sequences have a state at once, of n_running at most: a quarter of the budget is theirs,
// the rest is for pages, and one has its own whatever it takes, where the budget holds it.
uint32_t n_states(const KvLayout& layout, uint64_t budget_bytes, uint32_t n_running);
// The least budget in which n_sequences have a state each and pages take n_page_bytes.
uint64_t budget_with_states(const KvLayout& layout, uint64_t n_page_bytes, uint64_t n_sequences);

}  // namespace kvik
