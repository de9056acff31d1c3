// Benchmarks the cost of the live map for the engine, which pays it at most ten times a second: a
// view of a cache of 10^4 pages (or the argument's number) in which as many pages changed as 64
// sequences change between two views, and a view of all pages, which a new client gets.
#include <benchmark/benchmark.h>

#include <numeric>
#include <optional>
#include <vector>

#include "base/check.h"
#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/page_map.h"
#include "kv/plain_memory.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 64;  // the contents do not matter here
constexpr uint32_t kTextPages = 100;
constexpr uint32_t kSequences = 64;

// A cache filled with texts of 100 pages, 64 of which are running.
class Fixture {
 public:
  explicit Fixture(uint32_t n_pages) : cache_(memory_, uint64_t{n_pages} * kPageBytes, kPageBytes) {
    for (uint32_t text = 0; text < n_pages / kTextPages; ++text) {
      std::vector<TokenId> tokens(kTextPages * kPageTokens);
      std::iota(tokens.begin(), tokens.end(), text * 100'000);
      PageTable table;
      CHECK(open_prefix(cache_, table, {root_, tokens}, tokens.size()).has_value());
      cache_.close(table, tokens);
      if (text < kSequences) texts_.push_back(std::move(tokens));
    }
  }
  ~Fixture() {
    for (PageTable& table : tables_) table.clear();
  }

  // Each sequence releases its pages and leases them again, which is more than decoding does.
  void run_again(uint32_t n_tokens) {
    for (PageTable& table : tables_) table.clear();
    tables_.clear();
    for (const auto& tokens : texts_) {
      tables_.emplace_back();
      const auto head = std::span(tokens).first(n_tokens);
      CHECK(open_prefix(cache_, tables_.back(), {root_, head}, n_tokens).has_value());
    }
    running_.clear();
    for (const PageTable& table : tables_) running_.push_back(&table);
  }

  KvCache& cache() { return cache_; }
  std::span<const PageTable* const> running() const { return running_; }

 private:
  const PageKey root_ = root_key("bench", "");
  PlainMemory memory_;
  KvCache cache_;
  std::vector<std::vector<TokenId>> texts_;
  std::vector<PageTable> tables_;
  std::vector<const PageTable*> running_;
};

// The number of changed pages is that of 64 sequences with 4 pages each.
void collect_changes(benchmark::State& state) {
  Fixture fixture(static_cast<uint32_t>(state.range(0)));
  PageMap map(fixture.cache());
  std::vector<PageCell> cells;
  map.collect(PageMap::Extent::kAll, {}, cells);
  for (auto _ : state) {
    state.PauseTiming();
    fixture.run_again(4 * kPageTokens);
    cells.clear();
    state.ResumeTiming();
    map.collect(PageMap::Extent::kChanges, fixture.running(), cells);
  }
  state.counters["pages_told"] = static_cast<double>(cells.size());
}

void collect_all(benchmark::State& state) {
  Fixture fixture(static_cast<uint32_t>(state.range(0)));
  fixture.run_again(4 * kPageTokens);
  PageMap map(fixture.cache());
  for (auto _ : state) {
    std::vector<PageCell> cells;
    map.collect(PageMap::Extent::kAll, fixture.running(), cells);
    benchmark::DoNotOptimize(cells.data());
  }
}

BENCHMARK(collect_changes)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(collect_all)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvik

BENCHMARK_MAIN();
