#pragma once

#include "base/result.h"
#include "engine/engine.h"
#include "host/load_model.h"

namespace kvik {

// Loads a model for an engine with these options, as load_model() does, and logs before what memory
// that will come to: a warning where the machine has not that much left.
Result<LoadedModel> load_with_plan(const ModelOptions& options, const EngineOptions& engine);

}  // namespace kvik
