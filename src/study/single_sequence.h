#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "host/load_model.h"

namespace kvik {

// Returns an engine that computes one sequence at a time, of up to n_ctx tokens. Takes the model of
// `loaded`; borrows its backend and the clock.
Result<std::unique_ptr<Engine>> single_sequence_engine(LoadedModel& loaded, uint32_t n_ctx,
                                                       const Clock& clock);

}  // namespace kvik
