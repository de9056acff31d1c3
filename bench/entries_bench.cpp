// Benchmarks attention to selected tokens of latent K (DeepSeek V3.2's geometry), and to entries
// and a window (DeepSeek V4 Flash's): the whole backend, 2 threads.
//
//   bench_attention --benchmark_filter='entries.*int8'
//
// The time is that of one layer. GFLOP/s counts 2 · (head_dim + value_dim) operations per pair of
// query head and token.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention_benches.h"
#include "backend/cpu/cpu_backend.h"
#include "tensor/page_count.h"

namespace kvik::cpu {
namespace {

constexpr uint32_t kLayersHeld = 8;  // used in rotation, so that the caches do not hold the pages
constexpr uint32_t kChunkRows = 512;
constexpr uint32_t kWindow = 128;

struct Case {
  KvType type;
  uint32_t entry_tokens;  // 0: single tokens are selected, without a window
  uint32_t depth, n_rows;

  bool has_entries() const { return entry_tokens > 0; }
  uint32_t n_heads() const { return has_entries() ? 64 : 128; }
  uint32_t n_top() const { return has_entries() ? 512 : 2048; }
  bool selects() const { return entry_tokens < 128; }
  KvGeometry geometry(uint32_t n_layers) const {
    return {.type = type,
            .n_layers = n_layers,
            .n_kv_heads = 1,
            .head_dim = has_entries() ? 512u : 576u,
            .latent_dim = 512};
  }
  // Returns the number of tokens and entries that the last row attends to.
  uint32_t n_attended() const {
    const uint32_t n = (depth + n_rows) / std::max(1u, entry_tokens);
    return (selects() ? std::min(n, n_top()) : n) + (has_entries() ? kWindow : 0);
  }
};

class EntriesFixture {
 public:
  explicit EntriesFixture(const Case& c)
      : case_(c),
        backend_(std::move(*make_cpu_backend({.n_threads = 2, .isa = ""}))),
        geometry_(c.geometry(kLayersHeld)),
        entry_geometry_(c.geometry(n_places())),
        queries_(rows(c.n_rows, c.n_heads() * geometry_.head_dim)),
        out_(rows(c.n_rows, c.n_heads() * geometry_.value_dim())),
        pages_(new_pages(geometry_)),
        entry_pages_(new_pages(entry_geometry_)) {
    const Rows k = rows(kChunkRows, geometry_.head_dim);
    const uint32_t n_tokens = c.depth + c.n_rows;
    for (uint32_t first = 0; first < n_tokens; first += kChunkRows) {
      const uint32_t n = std::min(kChunkRows, n_tokens - first);
      const KvRun run{pages_, first, 0, n};
      const KvRun entry_run{entry_pages_, first, 0, n};
      for (uint32_t layer = 0; layer < kLayersHeld; ++layer) {
        backend_->write_kv({geometry_, layer, {&run, 1}}, k.slice(0, n), {});
        if (c.has_entries()) backend_->write_entries(entries(layer, entry_run), k.slice(0, n));
      }
    }
    list_rows();
  }

  void step() {
    const uint32_t layer = next_layer_++ % kLayersHeld;
    const KvRun run{pages_, case_.depth, 0, case_.n_rows};
    const KvRun entry_run{entry_pages_, case_.depth, 0, case_.n_rows};
    const KvTarget kv{geometry_, layer, {&run, 1}};
    AttentionShape shape{.n_heads = case_.n_heads(), .scale = 0.05f};
    if (case_.has_entries()) {
      shape.window = kWindow;
      EntrySelection selection;
      if (case_.selects()) {
        selection = {lists_.data(), case_.n_top(), case_.n_top(), row_numbers_};
      }
      backend_->attend_to_entries(kv, entries(layer, entry_run), selection, shape, queries_, out_);
    } else {
      const SelectedTokens selected{.blocks = lists_.data(),
                                    .n_top = case_.n_top(),
                                    .n_budget = case_.n_top(),
                                    .rows = row_numbers_};
      shape.selected = &selected;
      backend_->attention(kv, shape, queries_, out_);
    }
    benchmark::DoNotOptimize(out_.data);
  }

  double operations() const {
    return 2.0 * (geometry_.head_dim + geometry_.value_dim()) * case_.n_heads() * case_.n_rows *
           case_.n_attended();
  }

 private:
  uint32_t n_slots() const { return std::max(1u, kPageTokens / std::max(1u, case_.entry_tokens)); }
  uint32_t layers_of_place() const { return kPageTokens / n_slots(); }
  uint32_t n_places() const { return (kLayersHeld + layers_of_place() - 1) / layers_of_place(); }

  EntryTarget entries(uint32_t layer, const KvRun& run) const {
    return {{entry_geometry_, layer / layers_of_place(), {&run, 1}},
            case_.entry_tokens,
            layer % layers_of_place() * n_slots()};
  }

  // Selects tokens or entries at random, for each row on its own.
  void list_rows() {
    row_numbers_.resize(case_.n_rows);
    std::iota(row_numbers_.begin(), row_numbers_.end(), 0);
    for (uint32_t row = 0; row < case_.n_rows; ++row) {
      std::vector<uint32_t> all((case_.depth + row + 1) / std::max(1u, case_.entry_tokens));
      std::iota(all.begin(), all.end(), 0);
      std::vector<uint32_t> some(case_.n_top(), SelectedTokens::kNoBlock);
      std::ranges::sample(all, some.begin(), case_.n_top(), generator_);  // keeps their order
      lists_.insert(lists_.end(), some.begin(), some.end());
    }
  }

  Rows rows(uint32_t n, uint32_t n_cols) {
    buffers_.push_back(backend_->memory().allocate(size_t{n} * n_cols * sizeof(float)));
    float* data = buffers_.back().floats();
    for (size_t i = 0; i < size_t{n} * n_cols; ++i) {
      data[i] = static_cast<float>(generator_() % 2001) / 1000.0f - 1.0f;
    }
    return {data, n, n_cols, n_cols};
  }

  std::vector<std::byte*> new_pages(const KvGeometry& geometry) {
    const size_t n_pages = pages_for(case_.depth + case_.n_rows);
    const size_t bytes = backend_->page_bytes(geometry);
    buffers_.push_back(backend_->memory().allocate(n_pages * bytes));
    std::vector<std::byte*> pages;
    for (size_t i = 0; i < n_pages; ++i) pages.push_back(buffers_.back().data() + i * bytes);
    return pages;
  }

  const Case case_;
  std::mt19937 generator_{1};
  const std::unique_ptr<Backend> backend_;
  const KvGeometry geometry_, entry_geometry_;
  std::vector<Buffer> buffers_;
  const Rows queries_, out_;
  const std::vector<std::byte*> pages_, entry_pages_;
  std::vector<uint32_t> lists_, row_numbers_;
  uint32_t next_layer_ = 0;
};

}  // namespace

void add_entries_benches() {
  for (const KvType type : {KvType::kBF16, KvType::kInt8, KvType::kInt4}) {
    for (const uint32_t entry_tokens : {4, 128, 0}) {
      for (const uint32_t n_rows : {1, 512}) {
        for (const uint32_t depth : {0, 8192, 32768}) {
          const Case c{type, entry_tokens, depth, n_rows};
          const std::string name =
              std::string(n_rows == 1 ? "decode" : "prefill") + "/" +
              (c.has_entries() ? "entries:" + std::to_string(entry_tokens) : "selected:1") + "/" +
              std::string(name_of(type)) + "/depth:" + std::to_string(depth);
          benchmark::RegisterBenchmark(name.c_str(),
                                       [c](benchmark::State& state) {
                                         EntriesFixture fixture(c);
                                         for (auto _ : state) fixture.step();
                                         const auto n = static_cast<double>(state.iterations());
                                         state.counters["GFLOP/s"] =
                                             benchmark::Counter(n * fixture.operations() * 1e-9,
                                                                benchmark::Counter::kIsRate);
                                       })
              ->Unit(benchmark::kMicrosecond)
              ->MeasureProcessCPUTime()
              ->UseRealTime();
        }
      }
    }
  }
}

}  // namespace kvik::cpu
