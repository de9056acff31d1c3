#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/clock.h"
#include "engine/request/request.h"

namespace kvik {

// The step that is being computed, for monitoring.
struct RunningStep {
  uint32_t n_sequences = 0;  // 0: no step is being computed
  uint32_t n_decode_rows = 0;
  uint32_t n_prefill_rows = 0;
  TimePoint begin = {};
};

// Callbacks of a step, on the engine thread. Both may be empty.
struct StepHooks {
  // Called when a step is planned, with the numbers of running and waiting requests.
  std::function<void(const RunningStep& step, uint32_t n_running, uint32_t n_waiting)> on_begin;
  // Returns true if all of these requests were canceled since the step began. Called between
  // layers; if true, the step is interrupted, unless the model has a recurrent state.
  std::function<bool(std::span<const RequestId> ids)> are_cancelled;
};

}  // namespace kvik
