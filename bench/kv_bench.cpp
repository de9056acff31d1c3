// Benchmarks the cache's bookkeeping without tensors: hashing the key of a page; opening a prompt
// of 32k tokens, with a hit or a miss, in a cache that holds 10^5 pages of other conversations;
// sealing a new conversation, which evicts an old one; and all cache operations of a prefill. Each
// runs for one layer group and for the seven groups of gemma3-1b, six of which have a window of 512
// tokens. The main figure is `us/page`: the time for 32 tokens in all groups.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/check.h"
#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

constexpr uint32_t kConversationTokens = 32 << 10;
constexpr uint32_t kCommonTokens = 1024;  // common prefix, such as a system prompt
constexpr uint32_t kConversationPages = kConversationTokens / kPageTokens;
constexpr uint32_t kConversations = 98;  // of 1,024 pages each: 10^5 in total
constexpr size_t kPageBytes = 64;        // the contents do not matter here
constexpr uint32_t kStepTokens = 512;

Tokens conversation(uint32_t seed) {
  Tokens tokens;
  std::mt19937 common(0), own(seed + 1);
  for (uint32_t i = 0; i < kConversationTokens; ++i) {
    tokens.push_back((i < kCommonTokens ? common() : own()) % 32000);
  }
  return tokens;
}

Tokens new_conversation() {
  static uint32_t seed = kConversations;
  return conversation(++seed);
}

// Durations of the parts of a prefill.
struct Seconds {
  double seal = 0;
  double all = 0;
};

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Fixture {
 public:
  // One group with full attention; the others have a window of 512.
  explicit Fixture(uint32_t n_groups) : windows_(n_groups, 512) {
    windows_[0] = 0;
    cache_.emplace(memory_, uint64_t{kConversations} * kConversationPages * n_groups * kPageBytes,
                   KvLayout(kPageBytes, rules_of(windows_)), clock_);
    for (uint32_t i = 0; i < kConversations; ++i) compute(conversation(i));
  }

  // Leaves a prompt's pages in the prefix cache, as if they had been computed.
  void compute(const Tokens& tokens) {
    PageTable table = cache_->make_table();
    prefill(table, tokens, open(table, tokens));
    cache_->close(table, tokens);
  }

  // Returns the number of cached tokens.
  uint32_t open(PageTable& table, const Tokens& tokens) {
    const auto n_found = open_prefix(*cache_, table, {root_, tokens}, tokens.size());
    CHECK(n_found);
    return *n_found;
  }

  // Performs the cache operations of a prefill of the tokens after the first n_cached.
  Seconds prefill(PageTable& table, const Tokens& tokens, uint32_t n_cached) {
    Seconds took;
    while (n_cached < tokens.size()) {
      const auto n_left = static_cast<uint32_t>(tokens.size()) - n_cached;
      took.all += seconds([&] {
        n_cached += cache_->make_room(table, n_cached, std::min(kStepTokens, n_left));
        const auto cached = std::span(tokens).first(n_cached);
        took.seal += seconds([&] { cache_->seal(table, cached); });
        cache_->slide(table, n_cached);
        CHECK(cache_->grow(table, tokens.size()));
      });
    }
    return took;
  }

  KvCache& cache() { return *cache_; }

 private:
  PlainMemory memory_;
  SteadyClock clock_;
  std::vector<uint32_t> windows_;
  std::optional<KvCache> cache_;
  PageKey root_ = root_key("a model", "");
};

// The argument of the benchmark is the number of groups.
Fixture& fixture(const benchmark::State& state) {
  static std::map<int64_t, std::unique_ptr<Fixture>> fixtures;
  auto& own = fixtures[state.range(0)];
  if (!own) own = std::make_unique<Fixture>(static_cast<uint32_t>(state.range(0)));
  return *own;
}

void report_per_page(benchmark::State& state, uint32_t n_pages) {
  state.counters["us/page"] = benchmark::Counter(
      n_pages * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void key(benchmark::State& state) {
  const Tokens tokens = conversation(1);
  PageKey at = root_key("a model", "");
  for (auto _ : state) at = child_key(at, std::span(tokens).first(kPageTokens));
  benchmark::DoNotOptimize(at);
  report_per_page(state, 1);
}
BENCHMARK(key);

// All pages of the prompt are cached.
void open_hit(benchmark::State& state) {
  Fixture& f = fixture(state);
  f.compute(conversation(7));
  const Tokens tokens = conversation(7);
  for (auto _ : state) {
    PageTable table = f.cache().make_table();
    state.SetIterationTime(seconds([&] { CHECK(f.open(table, tokens) == kConversationTokens); }));
    f.cache().close(table, tokens);
  }
  report_per_page(state, kConversationPages);
}
BENCHMARK(open_hit)->ArgName("groups")->Arg(1)->Arg(7)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

// A new conversation that shares the common prefix: 32 pages hit, and the others are evicted and
// allocated.
void open_miss(benchmark::State& state) {
  Fixture& f = fixture(state);
  for (auto _ : state) {
    const Tokens tokens = new_conversation();
    PageTable table = f.cache().make_table();
    uint32_t n_found = 0;
    state.SetIterationTime(seconds([&] { n_found = f.open(table, tokens); }));
    CHECK(n_found / kPageTokens <= kCommonTokens / kPageTokens);
    f.prefill(table, tokens, n_found);
    f.cache().close(table, tokens);
  }
  report_per_page(state, kConversationPages);
}
BENCHMARK(open_miss)->ArgName("groups")->Arg(1)->Arg(7)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

// Measures computing keys and adding pages to the index. With `all`, also allocating the pages and
// releasing those that leave the windows.
void prefill(benchmark::State& state, double Seconds::*part) {
  Fixture& f = fixture(state);
  for (auto _ : state) {
    const Tokens tokens = new_conversation();
    PageTable table = f.cache().make_table();
    const uint32_t n_found = f.open(table, tokens);
    state.SetIterationTime(f.prefill(table, tokens, n_found).*part);
    f.cache().close(table, tokens);
  }
  report_per_page(state, kConversationPages);
}
void seal(benchmark::State& state) { prefill(state, &Seconds::seal); }
void seal_and_make_room(benchmark::State& state) { prefill(state, &Seconds::all); }
BENCHMARK(seal)->ArgName("groups")->Arg(1)->Arg(7)->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(seal_and_make_room)
    ->ArgName("groups")
    ->Arg(1)
    ->Arg(7)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvik

BENCHMARK_MAIN();
