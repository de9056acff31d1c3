#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/cpu/isa/machine_limits.h"
#include "study/bench/bench_runner.h"
#include "study/bench/limit_model.h"

namespace kvik {

// One test, measured.
struct BenchResult {
  BenchCase bench;
  double median = 0, min = 0, max = 0;  // tok/s of the whole batch
  Work work;                            // of all its tokens
  double limit = 0;                     // tok/s that the machine's ceilings allow
  uint64_t context_bytes = 0;           // pages of all sequences, at the end

  double limit_share() const { return median / limit; }
  double seconds() const { return double{1} * bench.n_tokens * bench.batch / median; }
};

const char* test_name(const BenchCase& bench);

// The array of objects that scripts rely on (DESIGN, section 6).
std::string results_as_json(std::span<const BenchResult> results);
std::string results_as_table(std::span<const BenchResult> results, const MachineLimits& machine);

}  // namespace kvik
