#pragma once

#include "base/result.h"
#include "host/load_model.h"
#include "study/bench/bench_report.h"
#include "study/bench/bench_runner.h"
#include "study/bench/limit_model.h"

namespace kvik {

// The first run of all touches buffers and wakes threads: it is not on the clock.
void warm_up_bench(BenchRunner& runner, BenchCase bench);

// Median, least and most of `repeat` runs; work and limit are left open.
BenchResult measure_bench(BenchRunner& runner, const BenchCase& bench, uint32_t repeat);

// The work of a test, and the speed at which this machine could do it.
void hold_against(const LimitModel& limits, const MachineLimits& machine, BenchResult& result);

// Opens the file once more for what it says of its tensors: loading let go of it.
Result<LimitModel> limit_model_of(const std::string& spec, const LoadedModel& loaded);

}  // namespace kvik
