#include "study/bench/bench_report.h"

#include <fmt/format.h>

#include <iterator>

#include "base/quantity.h"

namespace kvik {
namespace {

std::string bf16_limit(const MachineLimits& machine) {
  if (machine.bf16_ops_per_s == 0) return "bf16 as f32";
  return fmt::format("bf16 {:.0f} GFLOP/s", machine.bf16_ops_per_s * 1e-9);
}

std::string limits_text(const MachineLimits& machine) {
  if (machine.read_bytes_per_s == 0) return "limits of this machine: not known for a GPU\n";
  return fmt::format(
      "limits of this machine: reads {:.1f} GB/s, int8 {:.0f} GOP/s, {}, f32 {:.0f} GFLOP/s\n",
      machine.read_bytes_per_s * 1e-9, machine.int8_ops_per_s * 1e-9, bf16_limit(machine),
      machine.f32_ops_per_s * 1e-9);
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

std::string results_as_json(std::span<const BenchResult> results) {
  std::string out = "[";
  for (const BenchResult& r : results) {
    fmt::format_to(
        std::back_inserter(out),
        "{}\n  {{\"test\":\"{}\",\"tokens\":{},\"depth\":{},\"batch\":{},\"tok_s\":{:.3f},"
        "\"tok_s_min\":{:.3f},\"tok_s_max\":{:.3f},\"limit_share\":{}}}",
        &r == results.data() ? "" : ",", test_name(r.bench), r.bench.n_tokens, r.bench.depth,
        r.bench.batch, r.median, r.min, r.max, share_json(r));
  }
  return out + "\n]\n";
}

std::string results_as_table(std::span<const BenchResult> results, const MachineLimits& machine) {
  std::string out = limits_text(machine);
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
