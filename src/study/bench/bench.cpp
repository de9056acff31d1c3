#include "study/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/machine_limits.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "host/available_memory.h"
#include "host/load_adapter.h"
#include "host/load_model.h"
#include "host/progress_bar.h"
#include "study/bench/bench_report.h"
#include "study/bench/bench_runner.h"
#include "study/bench/limit_model.h"
#include "study/bench/roofline.h"

namespace kvik {
namespace {

constexpr uint64_t kTokensMax = uint64_t{1} << 30;
constexpr uint64_t kBatchMax = 512;

Result<void> check(const BenchOptions& options) {
  for (const uint64_t depth : options.depths) {
    const uint64_t n_tokens = depth + std::max(options.prefill, options.decode);
    if (depth <= kTokensMax && n_tokens > 0 && n_tokens <= kTokensMax) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--depth {} and the tested tokens make {}, expected 1 to 2^30", depth,
                            n_tokens));
  }
  for (const uint64_t batch : options.batches) {
    if (batch >= 1 && batch <= kBatchMax) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--batch is {}, expected 1 to {}", batch, kBatchMax));
  }
  return {};
}

// Returns one test for each depth, batch and kind, in this order.
std::vector<BenchCase> cases_of(const BenchOptions& options) {
  std::vector<BenchCase> cases;
  for (const uint64_t depth : options.depths) {
    for (const uint64_t batch : options.batches) {
      const auto add = [&](BenchCase::Kind kind, uint64_t n_tokens) {
        if (n_tokens == 0) return;
        cases.push_back({.kind = kind,
                         .n_tokens = static_cast<uint32_t>(n_tokens),
                         .depth = static_cast<uint32_t>(depth),
                         .batch = static_cast<uint32_t>(batch),
                         .use_cache = !options.no_cache,
                         .fill = options.fill});
      };
      add(BenchCase::Kind::kPrefill, options.prefill);
      add(BenchCase::Kind::kDecode, options.decode);
    }
  }
  return cases;
}

// Returns an error if a test does not fit in memory. Memory is mapped without being reserved, so
// such a test would end the process while it runs.
Result<void> check_memory(std::span<const BenchCase> cases, const LoadedModel& loaded) {
  const KvFootprint kv = loaded.kv();
  auto available = loaded.backend->memory().free_bytes();
  if (!available) available = available_memory_bytes();
  if (!available) return {};
  for (const BenchCase& bench : cases) {
    const uint64_t needed = BenchRunner::n_pages(bench) * kv.page_bytes();
    if (needed <= *available) continue;
    return fail(ErrorCode::kExhausted,
                fmt::format("{} sequences of {} tokens take {} as {}, and {} of memory are free",
                            bench.batch, bench.depth + bench.n_tokens, format_bytes(needed),
                            name_of(kv.type), format_bytes(*available)));
  }
  return {};
}

// Measures the limits of the machine between the steps of a run, for a tenth of the time of the
// steps. The limits vary because other programs use a varying share of the machine.
class LimitWatcher final : public BenchWatcher {
 public:
  explicit LimitWatcher(uint32_t n_threads) : probe_(n_threads) {}

  void between_steps(Duration computed) override {
    constexpr double kMsPerLook = 80;
    constexpr double kMaxLooks = 25;
    probe_.look(static_cast<uint32_t>(std::clamp(to_ms(computed) / kMsPerLook, 1.0, kMaxLooks)));
  }
  void after_run() override { limits.push_back(probe_.take()); }

  std::vector<MachineLimits> limits;  // one entry for each completed run

 private:
  MachineProbe probe_;
};

// Measures all cases. Without a watcher, only the runs are measured, not the limits of the machine.
std::vector<BenchResult> measure_all(BenchRunner& runner, std::span<const BenchCase> cases,
                                     uint32_t repeat, const LimitModel& limits,
                                     LimitWatcher* watcher) {
  ProgressBar bar("measuring");
  std::vector<BenchResult> results;
  runner.warm_up(cases.front());
  for (const BenchCase& bench : cases) {
    bar.show(results.size(), cases.size(),
             fmt::format("{} at depth {}", test_name(bench), bench.depth));
    results.push_back(runner.measure(bench, repeat, watcher));
    if (watcher) limits.hold_against(std::span(watcher->limits).last(repeat), results.back());
  }
  bar.show(cases.size(), cases.size(), "");
  return results;
}

// Returns Backend::arithmetic() of the first weights for which it is not empty.
std::string_view arithmetic_of(const LoadedModel& loaded) {
  for (const WeightKind& kind : loaded.model->weight_kinds()) {
    const std::string_view arithmetic = loaded.backend->arithmetic(kind.type);
    if (!arithmetic.empty()) return arithmetic;
  }
  return {};
}

}  // namespace

Result<std::string> bench(const BenchOptions& options) {
  TRY(check(options));
  if (!options.replay.file.empty()) {
    TRY_ASSIGN(const auto results,
               replay(options.model, options.replay, options.batches, options.repeat));
    return options.json ? replay_json(results) : replay_table(results);
  }
  std::ofstream roofline;
  if (!options.roofline.empty() && options.model.gpu) {
    return fail(ErrorCode::kInvalidArgument,
                "--roofline draws the limits of the processor: expected --device cpu");
  }
  if (!options.roofline.empty()) {
    roofline.open(options.roofline);
    if (!roofline) {
      return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", options.roofline));
    }
  }
  TRY_ASSIGN(const LoadedModel loaded, load_model(options.model));
  const KvType kv_type = options.model.kv_type;
  const std::vector<BenchCase> cases = cases_of(options);
  TRY(check_memory(cases, loaded));

  TRY_ASSIGN(const LimitModel limits, LimitModel::of(options.model.model, loaded));
  BenchRunner runner(loaded, kv_type, cases);
  for (const std::string& text : options.adapters) {
    TRY_ASSIGN(auto adapter,
               load_adapter(text, {*loaded.model, *loaded.backend, options.model.model}));
    runner.add_adapter(std::move(adapter));
  }
  std::optional<LimitWatcher> watcher;  // absent on a GPU: its limits are not known
  if (!options.model.gpu) watcher.emplace(runner.n_threads());
  const std::vector<BenchResult> results =
      measure_all(runner, cases, options.repeat, limits, watcher ? &*watcher : nullptr);
  const std::vector<MachineLimits> machine =
      watcher ? watcher->limits : std::vector<MachineLimits>();
  if (roofline.is_open()) {
    roofline << roofline_svg(results, best_of(machine),
                             fmt::format("{}, {} pages, {} threads", model_id(options.model),
                                         name_of(kv_type), runner.n_threads()));
    if (!roofline.flush()) {
      return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", options.roofline));
    }
  }
  const BenchSetup setup = {.kv_type = kv_type, .arithmetic = arithmetic_of(loaded)};
  return options.json ? results_as_json(results, setup) : results_as_table(results, machine, setup);
}

}  // namespace kvik
