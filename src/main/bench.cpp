#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_limits.h"
#include "main/bench_runner.h"
#include "main/commands.h"
#include "main/model_options.h"

namespace kvik {
namespace {

struct BenchOptions {
  ModelOptions model;
  uint64_t prefill = 512;
  uint64_t decode = 64;
  uint64_t depth = 0;
  uint32_t batch = 1;
  uint32_t repeat = 3;
  bool no_cache = false;
  bool fill = false;
  bool json = false;
};

struct BenchResult {
  BenchCase bench;
  double median = 0, min = 0, max = 0;  // tok/s
  double limit = 0;                     // tok/s that the machine's ceilings allow
};

// Work of one token at an average depth, as the limits count it (arithmetic and bytes).
class LimitModel {
 public:
  LimitModel(const LoadedModel& loaded, KvType kv_type, uint64_t page_bytes,
             const MachineLimits& machine)
      : machine_(machine),
        kv_bytes_per_token_(static_cast<double>(page_bytes) / kPageTokens),
        attention_peak_(kv_type == KvType::kInt8 ? machine.int8_ops_per_s : machine.f32_ops_per_s) {
    const ModelConfig& c = loaded.model->config();
    const double layer = double{1} * c.model_dim * (c.q_dim() + 2.0 * c.kv_dim()) +
                         double{1} * c.q_dim() * c.model_dim + 3.0 * c.model_dim * c.ffn_dim;
    layer_macs_ = layer * c.n_layers;
    head_macs_ = double{1} * c.model_dim * c.n_vocab;
    attention_ops_per_depth_ = 4.0 * c.n_layers * c.n_heads * c.head_dim;
    // An untied embedding is read one row a token: not worth counting.
    const bool is_tied = &loaded.model->head() == &loaded.model->embedding();
    weight_bytes_ = static_cast<double>(loaded.model->weight_bytes()) -
                    (is_tied ? 0.0 : static_cast<double>(loaded.model->embedding().bytes()));
    // Integer arithmetic where the weights are quantised, which their size tells.
    is_integer_ = static_cast<double>(loaded.model->layers()[0].qkv->bytes()) <
                  1.5 * loaded.model->layers()[0].qkv->n_rows() * c.model_dim;
  }

  // Tokens per second: all the batch's sequences read the weights once in a decode step, and each
  // its own K and V; prefill needs the logits of its last token only.
  double tokens_per_s(const BenchCase& b) const {
    const double mean_depth = b.depth + 0.5 * b.n_tokens;
    const double attention_s = attention_ops_per_depth_ * mean_depth / attention_peak_;
    const double peak = is_integer_ ? machine_.int8_ops_per_s : machine_.f32_ops_per_s;
    if (b.kind == BenchCase::Kind::kPrefill) {
      const double macs = layer_macs_ + head_macs_ / b.n_tokens;
      return 1.0 / (2 * macs / peak + attention_s);
    }
    const double read_s =
        (weight_bytes_ + b.batch * mean_depth * kv_bytes_per_token_) / machine_.read_bytes_per_s;
    const double compute_s = b.batch * (2 * (layer_macs_ + head_macs_) / peak + attention_s);
    return b.batch / std::max(read_s, compute_s);
  }

 private:
  MachineLimits machine_;
  double kv_bytes_per_token_;
  double attention_peak_;  // integer pages are attended in integers
  double layer_macs_ = 0, head_macs_ = 0, attention_ops_per_depth_ = 0, weight_bytes_ = 0;
  bool is_integer_ = false;
};

BenchResult measure(BenchRunner& runner, const BenchCase& bench, uint32_t repeat) {
  std::vector<double> speeds;
  for (uint32_t i = 0; i < repeat; ++i) speeds.push_back(runner.run(bench, i + 1));
  std::ranges::sort(speeds);
  return {.bench = bench,
          .median = speeds[speeds.size() / 2],
          .min = speeds.front(),
          .max = speeds.back()};
}

const char* test_name(const BenchCase& bench) {
  return bench.kind == BenchCase::Kind::kPrefill ? "prefill" : "decode";
}

void print_json(const std::vector<BenchResult>& results) {
  fmt::print("[");
  for (const BenchResult& r : results) {
    fmt::print(
        "{}\n  {{\"test\":\"{}\",\"tokens\":{},\"depth\":{},\"batch\":{},\"tok_s\":{:.3f},"
        "\"tok_s_min\":{:.3f},\"tok_s_max\":{:.3f},\"limit_share\":{:.4f}}}",
        &r == results.data() ? "" : ",", test_name(r.bench), r.bench.n_tokens, r.bench.depth,
        r.bench.batch, r.median, r.min, r.max, r.median / r.limit);
  }
  fmt::print("\n]\n");
}

void print_table(const std::vector<BenchResult>& results, const MachineLimits& machine) {
  fmt::print("limits of this machine: reads {:.1f} GB/s, f32 {:.0f} GFLOP/s, int8 {:.0f} GOP/s\n",
             machine.read_bytes_per_s * 1e-9, machine.f32_ops_per_s * 1e-9,
             machine.int8_ops_per_s * 1e-9);
  fmt::print("{:<8}{:>8}{:>9}{:>7}{:>12}{:>20}{:>16}\n", "test", "tokens", "depth", "batch",
             "tok/s", "min … max", "of the limit");
  for (const BenchResult& r : results) {
    fmt::print("{:<8}{:>8}{:>9}{:>7}{:>12.1f}{:>10.1f} …{:>8.1f}{:>15.0f}%\n", test_name(r.bench),
               r.bench.n_tokens, r.bench.depth, r.bench.batch, r.median, r.min, r.max,
               100 * r.median / r.limit);
  }
}

Result<int> bench(const BenchOptions& options) {
  TRY_ASSIGN(const LoadedModel loaded, load_model(options.model));
  const uint64_t n_tokens_max = options.depth + std::max(options.prefill, options.decode);
  if (n_tokens_max == 0 || n_tokens_max > (1u << 30)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("--depth and the tested tokens make {}, expected 1 to 2^30", n_tokens_max));
  }
  const uint32_t n_threads =
      options.model.n_threads ? options.model.n_threads : usable_processors();
  const MachineLimits machine = measure_machine_limits(n_threads);
  BenchRunner runner(loaded, options.model.kv_type, n_tokens_max, options.batch);
  const LimitModel limits(loaded, options.model.kv_type, runner.page_bytes(), machine);

  BenchCase base{.depth = static_cast<uint32_t>(options.depth),
                 .batch = options.batch,
                 .use_cache = !options.no_cache,
                 .fill = options.fill};
  std::vector<BenchResult> results;
  const auto add = [&](BenchCase::Kind kind, uint64_t n_tokens) {
    if (n_tokens == 0) return;
    base.kind = kind;
    base.n_tokens = static_cast<uint32_t>(n_tokens);
    results.push_back(measure(runner, base, options.repeat));
    results.back().limit = limits.tokens_per_s(base);
  };
  add(BenchCase::Kind::kPrefill, options.prefill);
  add(BenchCase::Kind::kDecode, options.decode);
  if (options.json) {
    print_json(results);
  } else {
    print_table(results, machine);
  }
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
  add_count(command, "--depth", options->depth, "tokens of context before the test (default: 0)");
  command.add_option("--batch", options->batch, "sequences at once")
      ->check(CLI::Range(1u, 512u))
      ->capture_default_str();
  command.add_option("--repeat", options->repeat, "runs of each test")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  command.add_flag("--no-cache", options->no_cache,
                   "decode without the cache: every step computes all tokens again");
  command.add_flag("--fill", options->fill,
                   "fill the context's pages with noise, do not compute it");
  command.add_flag("--json", options->json, "an array of results");
  return [options]() -> int {
    const Result<int> code = bench(*options);
    return code ? *code : report(code.error());
  };
}

}  // namespace kvik
