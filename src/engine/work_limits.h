#pragma once

#include <vector>

#include "engine/engine.h"
#include "model/model.h"

namespace kvik {

// Returns the largest amounts of work that one step of such an engine requires of the backend.
WorkLimits work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                       const EngineOptions& options);

}  // namespace kvik
