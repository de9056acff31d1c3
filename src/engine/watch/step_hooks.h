#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/clock.h"
#include "engine/request/request.h"

namespace kvik {

// The step that is being computed, for monitoring.
struct RunningStep {
  uint32_t n_sequences = 0;  // 0: none is being computed
  uint32_t n_decode_rows = 0;
  uint32_t n_prefill_rows = 0;
  TimePoint begin = {};
};

// Callbacks of a step, on the engine thread. Both may be empty.
struct StepHooks {
  // The step is planned, and so many requests run and wait.
  std::function<void(const RunningStep& step, uint32_t n_running, uint32_t n_waiting)> on_begin;
  // Returns whether all of these requests were cancelled since the step began. Asked between any
  // two layers: the step is broken off then.
  std::function<bool(std::span<const RequestId> ids)> are_cancelled;
};

}  // namespace kvik
