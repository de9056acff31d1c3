// The cache's bookkeeping, without a tensor: hashing the key of a page; opening a prompt of 32k
// tokens in a cache that holds 10^5 pages of other conversations, found or not; sealing a new
// conversation, which evicts an old one; all that a prefill asks of the cache. For one layer group,
// and for the seven of gemma3-1b, six of which see 512 tokens. `us/page` is the figure to look at:
// for 32 tokens, in all groups.
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
constexpr uint32_t kCommonTokens = 1024;  // in front of all, as a system prompt is
constexpr uint32_t kConversationPages = kConversationTokens / kPageTokens;
constexpr uint32_t kConversations = 98;  // of 1,024 pages each: 10^5 in all
constexpr size_t kPageBytes = 64;        // contents do not matter here
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

// How long parts of a prefill took.
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
  // A group that sees everything, and others with a window of 512.
  explicit Fixture(uint32_t n_groups) : windows_(n_groups, 512) {
    windows_[0] = 0;
    cache_.emplace(memory_, uint64_t{kConversations} * kConversationPages * n_groups * kPageBytes,
                   KvLayout(kPageBytes, rules_of(windows_)), clock_);
    for (uint32_t i = 0; i < kConversations; ++i) compute(conversation(i));
  }

  // Leaves a prompt's pages findable, as if they had been computed.
  void compute(const Tokens& tokens) {
    PageTable table = cache_->make_table();
    prefill(table, tokens, open(table, tokens));
    cache_->close(table, tokens);
  }

  // Returns the tokens found.
  uint32_t open(PageTable& table, const Tokens& tokens) {
    const auto n_found = open_prefix(*cache_, table, {root_, tokens}, tokens.size());
    CHECK(n_found);
    return *n_found;
  }

  // What the cache is asked for while the tokens behind the first n_cached are computed.
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

// By the argument of the benchmark: how many groups.
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

// All pages of the prompt are known.
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

// A new conversation behind the common tokens: 32 pages hit, the others are evicted and
// taken.
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

// Its pages are keyed and become findable. `all`: and take their memory, and leave their windows.
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
