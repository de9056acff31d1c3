#pragma once

#include <span>
#include <string>

#include "backend/cpu/isa/machine_limits.h"
#include "study/bench/bench_case.h"

namespace kvik {

// The array of objects that scripts rely on (DESIGN, section 6).
std::string results_as_json(std::span<const BenchResult> results, KvType kv_type);
// `machine`: as it was found each time it was looked at; empty of a GPU.
std::string results_as_table(std::span<const BenchResult> results,
                             std::span<const MachineLimits> machine, KvType kv_type);

}  // namespace kvik
