#pragma once

#include <vector>

#include "base/result.h"
#include "host/load_model.h"
#include "main/speculation_flags.h"

namespace kvik {

// A model and the options of an engine for a single sequence.
struct LoadedForOne {
  LoadedModel loaded;
  EngineOptions engine;
};

// Loads a model, and the draft model if there is one, for a single sequence that fills the context.
// Without --ctx the context is the largest that fits in the free memory; sets it in `options`.
Result<LoadedForOne> load_for_one(ModelOptions& options, const SpeculationFlags& speculation,
                                  const std::vector<TierPlace>& tiers);

}  // namespace kvik
