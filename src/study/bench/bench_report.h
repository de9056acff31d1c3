#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/isa/machine_limits.h"
#include "study/bench/bench_case.h"

namespace kvik {

// The configuration that a report shows.
struct BenchSetup {
  KvType kv_type = KvType::kInt8;
  // Backend::arithmetic() if the model has weights whose products are rounded differently
  // ("avx512bf16"); otherwise empty
  std::string_view arithmetic;
};

// Returns the results as a JSON array, which scripts read.
std::string results_as_json(std::span<const BenchResult> results, const BenchSetup& setup);
// Returns the results as a table. `machine`: the limits from each measurement; empty for a GPU.
std::string results_as_table(std::span<const BenchResult> results,
                             std::span<const MachineLimits> machine, const BenchSetup& setup);

}  // namespace kvik
