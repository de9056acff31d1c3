#include "study/bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/quantity.h"
#include "study/page_quality.h"

namespace kvik {
namespace {

// Returns the range of a measured limit as text.
std::string range_of(std::span<const MachineLimits> machine, double MachineLimits::*limit) {
  const auto [least, most] = std::ranges::minmax(machine, {}, limit);
  return fmt::format("{:.0f} to {:.0f}", least.*limit * 1e-9, most.*limit * 1e-9);
}

std::string limits_text(std::span<const MachineLimits> machine) {
  if (machine.empty()) return "limits of this machine: not known for a GPU\n";
  const bool has_int4 = machine.front().int4_ops_per_s > machine.front().int8_ops_per_s;
  const bool has_bf16 = machine.front().bf16_ops_per_s > 0;
  return fmt::format(
      "limits of this machine during the runs: reads {} GB/s, int8 {} GOP/s, int4 {}, bf16 {}, f32 "
      "{} GFLOP/s\n",
      range_of(machine, &MachineLimits::read_bytes_per_s),
      range_of(machine, &MachineLimits::int8_ops_per_s),
      has_int4 ? range_of(machine, &MachineLimits::int4_ops_per_s) : "as int8",
      has_bf16 ? range_of(machine, &MachineLimits::bf16_ops_per_s) : "as f32",
      range_of(machine, &MachineLimits::f32_ops_per_s));
}

std::string share_text(const BenchResult& result) {
  return result.limit > 0 ? fmt::format("{:.0f}%", 100 * result.limit_share()) : "?";
}

std::string share_json(const BenchResult& result) {
  return result.limit > 0 ? fmt::format("{:.4f}", result.limit_share()) : "null";
}

}  // namespace

const char* test_name(const BenchCase& bench) {
  return bench.kind == BenchCase::Kind::kPrefill ? "prefill" : "decode";
}

std::string results_as_json(std::span<const BenchResult> results, const BenchSetup& setup) {
  std::string out = "[";
  for (const BenchResult& r : results) {
    fmt::format_to(
        std::back_inserter(out),
        "{}\n  {{\"test\":\"{}\",\"tokens\":{},\"depth\":{},\"batch\":{},\"tok_s\":{:.3f},"
        "\"tok_s_min\":{:.3f},\"tok_s_max\":{:.3f},\"limit_share\":{},\"kv_type\":\"{}\",\"kv_"
        "quality\":\"{}\",\"arithmetic\":\"{}\"}}",
        &r == results.data() ? "" : ",", test_name(r.bench), r.bench.n_tokens, r.bench.depth,
        r.bench.batch, r.median, r.min, r.max, share_json(r), name_of(setup.kv_type),
        quality_of(setup.kv_type).name, setup.arithmetic);
  }
  return out + "\n]\n";
}

std::string results_as_table(std::span<const BenchResult> results,
                             std::span<const MachineLimits> machine, const BenchSetup& setup) {
  std::string out = fmt::format("{} pages ({}); {}", name_of(setup.kv_type),
                                quality_text(setup.kv_type), limits_text(machine));
  if (!setup.arithmetic.empty()) {
    fmt::format_to(std::back_inserter(out),
                   "{} rounds activations to bf16 where weights are bf16; --isa avx512 does not\n",
                   setup.arithmetic);
  }
  fmt::format_to(std::back_inserter(out), "{:<8}{:>8}{:>9}{:>7}{:>12}{:>11}{:>20}{:>14}\n", "test",
                 "tokens", "depth", "batch", "K and V", "tok/s", "min … max", "of the limit");
  for (const BenchResult& r : results) {
    fmt::format_to(std::back_inserter(out),
                   "{:<8}{:>8}{:>9}{:>7}{:>12}{:>11.{}f}{:>9.{}f} …{:>9.{}f}{:>14}\n",
                   test_name(r.bench), r.bench.n_tokens, r.bench.depth, r.bench.batch,
                   format_bytes(r.context_bytes), r.median, r.median < 10 ? 2 : 1, r.min,
                   r.min < 10 ? 2 : 1, r.max, r.max < 10 ? 2 : 1, share_text(r));
  }
  return out;
}

}  // namespace kvik
