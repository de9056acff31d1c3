// Benchmarks attention of one KV head over pages on one thread: decode (one row, the whole query
// group) and prefill.
//
//   bench_attention --benchmark_filter='decode.*avx512'
//
// GFLOP/s counts 4 · head_dim operations per pair of query head and visible token. GB/s counts K
// and V of the context, read once per call.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "attention_benches.h"
#include "backend/cpu/isa.h"
#include "backend/host_memory.h"

namespace kvik::cpu {
namespace {

struct Shape {
  KvType type;
  uint32_t head_dim, group, depth, n_rows;
  uint32_t window = 0;
  bool open = false;  // each row reads its own page from an open page
};

// Pages hold many heads, like those of a whole model, and each call uses the next head. Decode
// therefore reads from memory when the pages exceed the CPU cache.
class Fixture {
 public:
  Fixture(const InstructionSet& isa, const Shape& shape)
      : isa_(isa),
        shape_(shape),
        layout_{shape.type, shape.head_dim, 0, shape.open && shape.type == KvType::kInt4} {
    const uint32_t n_tokens = shape.depth + shape.n_rows;
    const size_t n_pages = (n_tokens + kPageTokens - 1) / kPageTokens;
    const size_t page_bytes = kHeadsPerPage * layout_.head_bytes();
    buffer_ = memory_.allocate(n_pages * page_bytes);

    const size_t open_page_bytes = kHeadsPerPage * layout_.open_layout().head_bytes();
    open_buffer_ = memory_.allocate(shape.open ? n_pages * open_page_bytes : 0);

    std::mt19937 generator(1);
    std::vector<float> row(shape.head_dim);
    for (size_t p = 0; p < n_pages; ++p) pages_.push_back(buffer_.data() + p * page_bytes);
    for (uint32_t t = 0; t < n_tokens; ++t) {
      for (float& x : row) x = static_cast<float>(generator() % 2001) / 1000.0f - 1.0f;
      for (uint32_t head = 0; head < kHeadsPerPage; ++head) {
        isa.attention.write_token(layout_, pages_[t / kPageTokens] + head * layout_.head_bytes(),
                                  t % kPageTokens, row.data(), row.data());
        if (!shape.open) continue;
        std::byte* open_page = open_buffer_.data() + t / kPageTokens * open_page_bytes;
        isa.attention.write_token(layout_.open_layout(),
                                  open_page + head * layout_.open_layout().head_bytes(),
                                  t % kPageTokens, row.data(), row.data());
        if (!layout_.keys_by_channel || t % kPageTokens != kPageTokens - 1) continue;
        isa.attention.write_channels(layout_, open_page + head * layout_.open_layout().head_bytes(),
                                     pages_[t / kPageTokens] + head * layout_.head_bytes());
      }
    }
    const size_t width = size_t{shape.group} * shape.head_dim;
    q_.resize(shape.n_rows * width);
    for (float& x : q_) x = static_cast<float>(generator() % 2001) / 500.0f - 2.0f;
    out_.resize(q_.size());
    for (uint32_t i = 0; i < shape.n_rows; ++i) {
      const size_t own_page = (shape.depth + i) / kPageTokens;
      rows_.push_back({&q_[i * width], &out_[i * width], shape.depth + i,
                       shape.open ? open_buffer_.data() + own_page * open_page_bytes : nullptr});
    }
    scratch_ = memory_.allocate(isa.attention.scratch_floats(layout_, shape.group) * 4);
  }

  void run() {
    isa_.attention.attend({.layout = layout_,
                           .block_offset = next_head_ * layout_.head_bytes(),
                           .pages = pages_.data(),
                           .rows = rows_.data(),
                           .n_rows = shape_.n_rows,
                           .first_column = 0,
                           .first_out_column = 0,
                           .group = shape_.group,
                           .scale = 0.125f,
                           .soft_cap = 0,
                           .window = shape_.window,
                           .scratch = scratch_.floats(),
                           .open_block_offset = next_head_ * layout_.open_layout().head_bytes()});
    next_head_ = (next_head_ + 1) % kHeadsPerPage;
    benchmark::DoNotOptimize(out_.data());
  }

  double operations() const {
    const double rows = shape_.n_rows;
    double seen = rows * shape_.depth + rows * (rows + 1) / 2;
    if (shape_.window != 0) seen = rows * shape_.window;
    return 4.0 * shape_.head_dim * shape_.group * seen;
  }
  double bytes() const { return static_cast<double>(pages_.size() * layout_.head_bytes()); }

 private:
  static constexpr uint32_t kHeadsPerPage = 32;

  const InstructionSet& isa_;
  Shape shape_;
  KvBlockLayout layout_;
  HostMemory memory_;
  Buffer buffer_, open_buffer_, scratch_;
  std::vector<std::byte*> pages_;
  std::vector<float> q_, out_;
  std::vector<QueryRow> rows_;
  uint32_t next_head_ = 0;
};

void attend(benchmark::State& state, const InstructionSet& isa, const Shape& shape) {
  Fixture fixture(isa, shape);
  for (auto _ : state) fixture.run();
  const auto n = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] =
      benchmark::Counter(n * fixture.operations() * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(n * fixture.bytes() * 1e-9, benchmark::Counter::kIsRate);
}

void add(const InstructionSet& isa, const Shape& shape) {
  const std::string name =
      std::string(shape.n_rows == 1 ? "decode" : "prefill") + "/" + std::string(isa.name) + "/" +
      name_of(shape.type) + (shape.open ? "+open" : "") +
      "/head_dim:" + std::to_string(shape.head_dim) + "/group:" + std::to_string(shape.group) +
      "/depth:" + std::to_string(shape.depth) +
      (shape.window != 0 ? "/window:" + std::to_string(shape.window) : "");
  benchmark::RegisterBenchmark(name.c_str(), [&isa, shape](benchmark::State& state) {
    attend(state, isa, shape);
  })->Unit(benchmark::kMicrosecond);
}

void add_all() {
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here() || isa.name == "scalar") continue;
    for (const KvType type : kAllKvTypes) {
      for (const uint32_t depth : {512, 8192}) {
        for (const uint32_t group : {8, 4, 1}) add(isa, {type, 64, group, depth, 1});
        // The last token of a page, so that most of the open page is read.
        if (has_open_pages(type)) add(isa, {type, 64, 8, depth + 31, 1, 0, true});
        add(isa, {type, 128, 4, depth, 1});
      }
      for (const uint32_t depth : {0, 8192}) {
        if (has_open_pages(type)) add(isa, {type, 64, 8, depth, 512, 0, true});
        for (const uint32_t group : {8, 1}) add(isa, {type, 64, group, depth, 512});
        add(isa, {type, 128, 4, depth, 512});
      }
      for (const uint32_t n_rows : {1, 512}) add(isa, {type, 64, 8, 8192, n_rows, 512});
      add(isa, {type, 256, 4, 8192, 1});
      add(isa, {type, 256, 4, 8192, 512});
    }
  }
}

}  // namespace
}  // namespace kvik::cpu

int main(int argc, char** argv) {
  kvik::cpu::add_all();
  kvik::cpu::add_shared_pages_benches();
  kvik::cpu::add_entries_benches();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
