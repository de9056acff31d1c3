#pragma once

#include <vector>

#include "engine/engine.h"
#include "model/model.h"

namespace kvik {

// What one step of such an engine asks of the backend at most.
WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options);

// How the model's layers lie in pages of this size.
KvLayout kv_layout(size_t page_bytes, const ModelConfig& config);

}  // namespace kvik
