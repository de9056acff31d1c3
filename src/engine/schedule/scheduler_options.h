#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "engine/speculate/speculation_options.h"

namespace kvik {

struct SchedulerOptions {
  uint32_t max_step_tokens = 512;
  uint32_t max_running = 64;
  uint32_t n_tenants = 1;  // configured tenants
  // Target time of steps with decoding sequences; absent: no limit.
  std::optional<Duration> itl_target = {};
  SpeculationOptions speculation = {.mode = SpeculationOptions::Mode::kOff};
};

}  // namespace kvik
