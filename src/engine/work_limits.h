#pragma once

#include <vector>

#include "engine/engine.h"
#include "model/model.h"

namespace kvik {

// What one step of such an engine asks of the backend at most.
WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options);

}  // namespace kvik
