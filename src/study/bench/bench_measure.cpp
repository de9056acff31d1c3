#include "study/bench/bench_measure.h"

#include <algorithm>
#include <vector>

namespace kvik {

void warm_up_bench(BenchRunner& runner, BenchCase bench) {
  bench.n_tokens = std::min(bench.n_tokens, bench.kind == BenchCase::Kind::kPrefill ? 512u : 4u);
  bench.depth = 0;
  bench.batch = 1;
  bench.fill = false;
  runner.run(bench, 0);
}

BenchResult measure_bench(BenchRunner& runner, const BenchCase& bench, uint32_t repeat) {
  std::vector<double> speeds;
  for (uint32_t i = 0; i < repeat; ++i) speeds.push_back(runner.run(bench, i + 1));
  std::ranges::sort(speeds);
  return {.bench = bench,
          .median = speeds[speeds.size() / 2],
          .min = speeds.front(),
          .max = speeds.back(),
          .work = {},
          .limit = 0,
          .context_bytes = BenchRunner::n_pages(bench) * runner.page_bytes()};
}

void hold_against(const LimitModel& limits, const MachineLimits& machine, BenchResult& result) {
  result.work = limits.work(result.bench);
  result.limit = result.bench.n_tokens * result.bench.batch / least_seconds(result.work, machine);
}

Result<LimitModel> limit_model_of(const ModelOptions& options, const Model& model,
                                  uint64_t page_bytes) {
  TRY_ASSIGN(const auto source, open_model(options.model));
  return LimitModel(*source, model.config(), options.kv_type,
                    static_cast<double>(page_bytes) / kPageTokens);
}

}  // namespace kvik
