// Benchmarks matrix products with TinyLlama's shapes on one thread, by weight type and number of
// rows. Reports operations and weight bytes per second of processor time, and the share of this
// core's limit: the time of the reads or of the arithmetic, whichever is longer. Up to M = 64, the
// benchmark cycles through so many copies of the matrix that no cache holds them.
//
//   bench_matmul --benchmark_filter='avx512/q4_k/2048x5632/512'
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/machine_limits.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

constexpr size_t kBytesInTurn = size_t{768} << 20;  // three times a server's last-level cache

struct Shape {
  uint32_t k, n;
};
constexpr Shape kShapes[] = {{2048, 5632}, {5632, 2048}, {2048, 2560}};
// Returns the limits of one core, measured when the first benchmark runs.
const MachineLimits& limits() {
  static const MachineLimits measured = measure_machine_limits(1);
  return measured;
}

double min_seconds(ElementType type, double operations, double bytes) {
  const bool is_float = traits(type).block_elements == 1;
  const double rate = is_float ? limits().f32_ops_per_s : limits().int8_ops_per_s;
  return std::max(operations / rate, bytes / limits().read_bytes_per_s);
}

std::vector<std::byte> random_bytes(ElementType type, Shape shape) {
  std::mt19937 generator(1);
  std::vector<float> row(shape.k);
  const size_t row_bytes = TensorView{type, shape.n, shape.k, {}}.row_bytes();
  std::vector<std::byte> bytes(shape.n * row_bytes);
  for (float& value : row) value = std::normal_distribution<float>()(generator);
  quantize_row(type, row, bytes.data());
  for (size_t n = 1; n < shape.n; ++n) {
    std::memcpy(bytes.data() + n * row_bytes, bytes.data(), row_bytes);
  }
  return bytes;
}

void run(benchmark::State& state, const std::string& isa, ElementType type, Shape shape,
         uint32_t m) {
  auto backend = std::move(*make_cpu_backend({1, isa}));
  const std::vector<std::byte> bytes = random_bytes(type, shape);
  const TensorView view{type, shape.n, shape.k, bytes};
  std::vector<std::unique_ptr<PackedMatrix>> weights;
  const size_t copies = m > 64 ? 1 : kBytesInTurn / bytes.size() + 1;
  for (size_t i = 0; i < copies; ++i)
    weights.push_back(std::move(*backend->pack_views({&view, 1})));
  const Buffer x = backend->memory().allocate(size_t{m} * shape.k * sizeof(float));
  const Buffer out = backend->memory().allocate(size_t{m} * shape.n * sizeof(float));
  for (size_t i = 0; i < size_t{m} * shape.k; ++i) x.floats()[i] = static_cast<float>(i % 7) - 3;
  size_t turn = 0;
  for (auto _ : state) {
    backend->matmul({x.floats(), m, shape.k, shape.k}, *weights[turn++ % copies],
                    {out.floats(), m, shape.n, shape.n});
  }
  using benchmark::Counter;
  const auto n_bytes = static_cast<double>(weights[0]->bytes());
  const double operations = 2.0 * m * shape.k * shape.n;
  state.counters["GOP/s"] = Counter(operations * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(n_bytes * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["share"] =
      Counter(min_seconds(type, operations, n_bytes), Counter::kIsIterationInvariantRate);
}

void register_all() {
  for (const std::string_view isa : cpu_isa_names()) {
    if (isa == "scalar") continue;
    for (const ElementTraits& t : element_types()) {
      const ElementType type = t.type;
      if (!can_dequantize(type)) continue;
      for (const Shape shape : kShapes) {
        for (const uint32_t m : {1u, 4u, 16u, 32u, 64u, 512u}) {
          const std::string name = fmt::format("{}/{}/{}x{}/{}", isa, t.name, shape.k, shape.n, m);
          benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
            run(s, std::string(isa), type, shape, m);
          })->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvik

int main(int argc, char** argv) {
  kvik::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
