#pragma once

#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/isa/machine_limits.h"
#include "study/bench/bench_case.h"

namespace kvik {

// The setup that a report names.
struct BenchSetup {
  KvType kv_type = KvType::kInt8;
  // Backend::arithmetic() of weights of the model whose products it rounds in its own way
  // ("avx512bf16"); empty: of none.
  std::string_view arithmetic;
};

// The array of objects that scripts rely on (DESIGN, section 6).
std::string results_as_json(std::span<const BenchResult> results, const BenchSetup& setup);
// `machine`: as it was found each time it was looked at; empty of a GPU.
std::string results_as_table(std::span<const BenchResult> results,
                             std::span<const MachineLimits> machine, const BenchSetup& setup);

}  // namespace kvik
