// Benchmarks saving and restoring a recurrent state of Qwen3.6-35B-A3B: 62.8 MiB, stored in pages
// of the size that its K and V need. A plain copy of the same number of bytes by the same thread is
// measured for comparison. GB/s counts the bytes copied.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

namespace kvik {
namespace {

constexpr uint64_t kStateBytes = uint64_t{16465920} * 4;
constexpr size_t kPageBytes = size_t{10} * 2 * 2 * (256 + 4) * kPageTokens;  // as int8
constexpr uint64_t kBudgetBytes = 8 * kStateBytes;

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report(benchmark::State& state) {
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(kStateBytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

KvLayout layout() {
  KvLayout layout(kPageBytes, rules_of({0}));
  layout.state_bytes = kStateBytes;
  layout.n_states = 2;
  return layout;
}

void plain_copy(benchmark::State& state) {
  std::vector<std::byte> from(kStateBytes, std::byte{1}), to(kStateBytes, std::byte{2});
  PlainMemory memory;
  for (auto _ : state) {
    state.SetIterationTime(seconds([&] { memory.copy(to.data(), from.data(), kStateBytes); }));
    std::swap(from, to);
  }
  report(state);
}
BENCHMARK(plain_copy)->UseManualTime()->Unit(benchmark::kMillisecond);

// A cache for conversations of one page each.
struct Rig {
  PlainMemory memory;
  SteadyClock clock;
  KvCache cache{memory, kBudgetBytes, layout(), clock};
  PageKey root = root_key("bench", "");
  std::vector<TokenId> tokens = std::vector<TokenId>(kPageTokens + 1);

  uint32_t open(PageTable& table) {
    const auto found =
        open_prefix(cache, table, {root, std::span(tokens).first(kPageTokens)}, tokens.size());
    CHECK(found.has_value());
    return *found;
  }
  // Returns the seconds needed to save the state at the end of its page.
  double compute(TokenId first) {
    std::iota(tokens.begin(), tokens.end(), first);
    PageTable table = cache.make_table();
    CHECK(open(table) == 0);
    const auto done = std::span(tokens).first(kPageTokens);
    cache.seal(table, done);
    const double took =
        seconds([&] { CHECK(cache.snapshots().keep(table, done, SnapshotKind::kEnd)); });
    cache.close(table, done);
    return took;
  }
};

void keep(benchmark::State& state) {
  Rig rig;
  TokenId first = 0;
  for (int i = 0; i < 8; ++i) rig.compute(first += 100);  // touches the memory of the whole budget
  for (auto _ : state) state.SetIterationTime(rig.compute(first += 100));
  report(state);
}
BENCHMARK(keep)->UseManualTime()->Unit(benchmark::kMillisecond);

// Measures opening a prompt whose state is cached.
void resume(benchmark::State& state) {
  Rig rig;
  rig.compute(100);
  for (auto _ : state) {
    PageTable table = rig.cache.make_table();
    uint32_t n_found = 0;
    state.SetIterationTime(seconds([&] { n_found = rig.open(table); }));
    CHECK(n_found == kPageTokens);
    rig.cache.close(table, std::span(rig.tokens).first(kPageTokens));
  }
  report(state);
}
BENCHMARK(resume)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvik

BENCHMARK_MAIN();
