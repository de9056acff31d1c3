// Benchmarks the row operations between matrix products on one thread, with 512 rows of TinyLlama's
// shapes in the CPU cache: norm, activation, rope, quantization. Reports rows per second and GB/s
// of the bytes read and written.
#include <benchmark/benchmark.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"

namespace kvik::cpu {
namespace {

constexpr uint32_t kRows = 512, kModelDim = 2048, kFfnDim = 5632, kHeadDim = 64;

std::vector<float> values(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 2654435761u) % 2001) * 1e-3f - 1;
  return x;
}

// Returns cosines, then sines. Under repeated rotations a head keeps its length, so no denormals
// appear.
std::vector<float> unit_vectors() {
  std::vector<float> x(kHeadDim);
  for (uint32_t i = 0; i < kHeadDim / 2; ++i) {
    x[i] = std::cos(static_cast<float>(i));
    x[kHeadDim / 2 + i] = std::sin(static_cast<float>(i));
  }
  return x;
}

// `row` processes one row; `row_bytes` is the number of bytes that it reads and writes.
void add(const std::string& name, size_t row_bytes, std::function<void(uint32_t row)> row) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    for (auto _ : state) {
      for (uint32_t r = 0; r < kRows; ++r) row(r);
      benchmark::ClobberMemory();
    }
    using benchmark::Counter;
    state.counters["rows/s"] = Counter(kRows, Counter::kIsIterationInvariantRate);
    state.counters["GB/s"] =
        Counter(static_cast<double>(kRows * row_bytes) * 1e-9, Counter::kIsIterationInvariantRate);
  })->Unit(benchmark::kMicrosecond);
}

void add_rows(const InstructionSet& isa, std::vector<float>& x, std::vector<float>& y) {
  const std::string prefix = std::string(isa.name) + "/";
  float* const in = x.data();
  float* const out = y.data();
  static const std::vector<float> weight = values(kModelDim), angles = unit_vectors();
  add(prefix + "rms_norm", 8 * kModelDim, [=, &isa](uint32_t r) {
    isa.rows.rms_norm(in + r * kModelDim, weight.data(), kModelDim, 1e-5f, out + r * kModelDim);
  });
  add(prefix + "add", 12 * kModelDim,
      [=, &isa](uint32_t r) { isa.rows.add(out + r * kModelDim, in + r * kModelDim, kModelDim); });
  for (const auto& [name, activation] :
       {std::pair("silu", Activation::kSilu), {"gelu_tanh", Activation::kGeluTanh}}) {
    add(prefix + "gated_" + name, 12 * kFfnDim, [=, &isa, activation = activation](uint32_t r) {
      const float* gate = in + r * 2 * kFfnDim;
      isa.rows.gated_activation(activation, gate, gate + kFfnDim, kFfnDim, out + r * kFfnDim);
    });
  }
  for (const auto& [name, pairing] :
       {std::pair("interleaved", RopePairing::kInterleaved), {"halves", RopePairing::kHalves}}) {
    add(prefix + "rope_" + name, 8 * kModelDim, [=, &isa, pairing = pairing](uint32_t r) {
      for (uint32_t head = 0; head < kModelDim / kHeadDim; ++head) {
        isa.rows.rope(out + r * kModelDim + head * kHeadDim, pairing, angles.data(),
                      angles.data() + kHeadDim / 2, kHeadDim / 2);
      }
    });
  }
}

// Quantizes rows into tiles of int8 levels, the input format of matrix products with quantized
// weights.
void add_quantization(const InstructionSet& isa, std::vector<float>& x, std::vector<float>& y) {
  const ActivationKernels& kernels = isa.matmul.activations(ActivationFormat::kInt8);
  const uint32_t tile_rows = kernels.tile_rows(kRows);
  static std::vector<float> scratch(pack_scratch_floats(kFfnDim));
  for (const uint32_t k : {kModelDim, kFfnDim}) {
    const size_t row_bytes = kernels.row_bytes(k);
    add(std::string(isa.name) + "/quantize/" + std::to_string(k), 4 * k + row_bytes,
        [=, &kernels, in = x.data(), out = y.data()](uint32_t r) {
          if (r % tile_rows != 0) return;
          kernels.pack({.x = in + size_t{r} * k,
                        .rows = nullptr,
                        .stride = k,
                        .n_rows = std::min(tile_rows, kRows - r),
                        .k = k,
                        .out = reinterpret_cast<std::byte*>(out) + r * row_bytes,
                        .scratch = scratch.data()});
        });
  }
}

}  // namespace
}  // namespace kvik::cpu

int main(int argc, char** argv) {
  using namespace kvik::cpu;
  std::vector<float> x = values(size_t{kRows} * 2 * kFfnDim), y = values(size_t{kRows} * kFfnDim);
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    add_rows(isa, x, y);
    add_quantization(isa, x, y);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
