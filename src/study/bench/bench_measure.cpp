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

Result<LimitModel> limit_model_of(const std::string& spec, const LoadedModel& loaded) {
  TRY_ASSIGN(const auto source, open_model(spec));
  return LimitModel(*source, loaded.model->config(), loaded.kv());
}

}  // namespace kvik
