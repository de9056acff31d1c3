// The cache's bookkeeping, without a tensor: hashing the key of a page; opening a prompt of 32k
// tokens in a cache that holds 10^5 pages of other conversations, found or not; sealing a new
// conversation, which evicts an old one. `us/page` is the figure to look at.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "kv/kv_cache.h"

namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

constexpr uint32_t kConversationTokens = 32 << 10;
constexpr uint32_t kCommonTokens = 1024;  // in front of all, as a system prompt is
constexpr uint32_t kConversationPages = kConversationTokens / kPageTokens;
constexpr uint32_t kConversations = 98;  // of 1,024 pages each: 10^5 in all
constexpr size_t kPageBytes = 64;        // contents do not matter here

class HostMemory final : public Memory {
 public:
  Buffer allocate(size_t bytes) override {
    void* data = std::calloc(bytes, 1);
    return Buffer(*this, static_cast<std::byte*>(data), bytes);
  }
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    std::memcpy(to, from.data(), from.size());
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    std::memcpy(to.data(), from, to.size());
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void clear(std::byte* data, size_t bytes) override { std::memset(data, 0, bytes); }
  void free(std::byte* data, size_t) override { std::free(data); }
};

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

class Fixture {
 public:
  Fixture() {
    for (uint32_t i = 0; i < kConversations; ++i) compute(conversation(i));
  }

  // Leaves a prompt's pages findable, as if they had been computed.
  void compute(const Tokens& tokens) {
    PageTable table;
    open(table, tokens);
    cache_.close(table, root_, tokens);
  }

  // Returns the tokens found.
  uint32_t open(PageTable& table, const Tokens& tokens) {
    const auto n_found = cache_.open(table, root_, tokens, tokens.size());
    CHECK(n_found);
    return *n_found;
  }

  KvCache& cache() { return cache_; }
  const PageKey& root() const { return root_; }

 private:
  HostMemory memory_;
  KvCache cache_{memory_, uint64_t{kConversations} * kConversationPages* kPageBytes, kPageBytes};
  PageKey root_ = root_key("a model", "");
};

Fixture& fixture() {
  static Fixture shared;
  return shared;
}

void report_per_page(benchmark::State& state, uint32_t n_pages) {
  state.counters["us/page"] = benchmark::Counter(
      n_pages * 1e-6, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class Work>
double seconds(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
  Fixture& f = fixture();
  f.compute(conversation(7));
  const Tokens tokens = conversation(7);
  for (auto _ : state) {
    PageTable table;
    state.SetIterationTime(seconds([&] { CHECK(f.open(table, tokens) == kConversationTokens); }));
    f.cache().close(table, f.root(), tokens);
  }
  report_per_page(state, kConversationPages);
}
BENCHMARK(open_hit)->UseManualTime()->Unit(benchmark::kMicrosecond);

// A new conversation behind the common tokens: 32 pages hit, the others are evicted and
// taken.
void open_miss(benchmark::State& state) {
  Fixture& f = fixture();
  for (auto _ : state) {
    const Tokens tokens = new_conversation();
    PageTable table;
    state.SetIterationTime(seconds(
        [&] { CHECK(f.open(table, tokens) / kPageTokens == kCommonTokens / kPageTokens); }));
    f.cache().close(table, f.root(), tokens);
  }
  report_per_page(state, kConversationPages);
}
BENCHMARK(open_miss)->UseManualTime()->Unit(benchmark::kMicrosecond);

// Its pages are keyed and become findable.
void seal(benchmark::State& state) {
  Fixture& f = fixture();
  for (auto _ : state) {
    const Tokens tokens = new_conversation();
    PageTable table;
    f.open(table, tokens);
    state.SetIterationTime(seconds([&] { f.cache().seal(table, f.root(), tokens); }));
    f.cache().close(table, f.root(), tokens);
  }
  report_per_page(state, kConversationPages);
}
BENCHMARK(seal)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvik

BENCHMARK_MAIN();
