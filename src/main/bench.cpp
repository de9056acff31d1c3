#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/machine_limits.h"
#include "base/quantity.h"
#include "main/available_memory.h"
#include "main/bench_measure.h"
#include "main/bench_report.h"
#include "main/bench_runner.h"
#include "main/commands.h"
#include "main/limit_model.h"
#include "main/model_options.h"
#include "main/progress_bar.h"
#include "main/roofline.h"

namespace kvik {
namespace {

constexpr uint64_t kTokensMax = uint64_t{1} << 30;
constexpr uint64_t kBatchMax = 512;

struct BenchOptions {
  ModelOptions model;
  uint64_t prefill = 512;
  uint64_t decode = 64;
  std::vector<uint64_t> depths = {0};
  std::vector<uint64_t> batches = {1};
  uint32_t repeat = 3;
  bool no_cache = false;
  bool fill = false;
  bool json = false;
  std::string roofline;  // a file to draw into; empty: none
};

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

// A test for each depth, batch and kind, in this order.
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

// Pages are mapped without being reserved: what does not fit would end the process in the middle.
Result<void> check_memory(std::span<const BenchCase> cases, uint64_t page_bytes, KvType kv_type) {
  const auto available = available_memory_bytes();
  if (!available) return {};
  for (const BenchCase& bench : cases) {
    const uint64_t needed = BenchRunner::n_pages(bench) * page_bytes;
    if (needed <= *available) continue;
    return fail(ErrorCode::kExhausted,
                fmt::format("{} sequences of {} tokens take {} as {}, and {} of memory are free",
                            bench.batch, bench.depth + bench.n_tokens, format_bytes(needed),
                            name_of(kv_type), format_bytes(*available)));
  }
  return {};
}

std::vector<BenchResult> measure_all(BenchRunner& runner, std::span<const BenchCase> cases,
                                     uint32_t repeat) {
  ProgressBar bar("measuring");
  std::vector<BenchResult> results;
  warm_up_bench(runner, cases.front());
  for (const BenchCase& bench : cases) {
    bar.show(results.size(), cases.size(),
             fmt::format("{} at depth {}", test_name(bench), bench.depth));
    results.push_back(measure_bench(runner, bench, repeat));
  }
  bar.show(cases.size(), cases.size(), "");
  return results;
}

Result<int> bench(const BenchOptions& options) {
  TRY(check(options));
  std::ofstream roofline;
  if (!options.roofline.empty()) {
    roofline.open(options.roofline);
    if (!roofline) {
      return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", options.roofline));
    }
  }
  TRY_ASSIGN(const LoadedModel loaded, load_model(options.model));
  const KvType kv_type = options.model.kv_type;
  const uint64_t page_bytes = loaded.backend->page_bytes(loaded.model->kv_geometry(kv_type)) *
                              group_layers(loaded.model->config()).n_groups();
  const std::vector<BenchCase> cases = cases_of(options);
  TRY(check_memory(cases, page_bytes, kv_type));

  const uint32_t n_threads = loaded.backend->n_threads();
  const MachineLimits machine = measure_machine_limits(n_threads);
  TRY_ASSIGN(const LimitModel limits, limit_model_of(options.model, *loaded.model, page_bytes));
  BenchRunner runner(loaded, kv_type, cases);
  std::vector<BenchResult> results = measure_all(runner, cases, options.repeat);
  for (BenchResult& r : results) hold_against(limits, machine, r);
  if (roofline.is_open()) {
    roofline << roofline_svg(results, machine,
                             fmt::format("{}, {} pages, {} threads", model_id(options.model.model),
                                         name_of(kv_type), n_threads));
    if (!roofline.flush()) {
      return fail(ErrorCode::kIo, fmt::format("cannot write '{}'", options.roofline));
    }
  }
  fmt::print("{}", options.json ? results_as_json(results) : results_as_table(results, machine));
  return kExitOk;
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command =
      *app.add_subcommand("bench", "prefill and decode speed, as a share of this machine's limits");
  options->model.add_to(command);
  add_count(command, "--prefill", options->prefill, "prompt tokens; 0: no test (default: 512)");
  add_count(command, "--decode", options->decode, "generated tokens; 0: no test (default: 64)");
  add_counts(command, "--depth", options->depths,
             "tokens of context before the test; several: 0,1k,8k (default: 0)");
  add_counts(command, "--batch", options->batches,
             "sequences at once; several: 1,4,16 (default: 1)");
  command.add_option("--repeat", options->repeat, "runs of each test")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  command.add_flag("--no-cache", options->no_cache,
                   "decode without the cache: every step computes all tokens again");
  command.add_flag("--fill", options->fill,
                   "fill the context's pages with noise, do not compute it");
  command.add_flag("--json", options->json, "an array of results");
  command.add_option("--roofline", options->roofline, "draw the machine's roofline as SVG")
      ->type_name("FILE");
  return [options]() -> int {
    const Result<int> code = bench(*options);
    return code ? *code : report(code.error());
  };
}

}  // namespace kvik
