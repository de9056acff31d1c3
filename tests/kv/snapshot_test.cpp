#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/hash.h"
#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

// Tests of recurrent models: a prefix is found up to a state snapshot, and the restored state has
// the bytes that were kept.
namespace kvik {
namespace {

const PageKey kRoot = root_key("test", "");
constexpr size_t kPageBytes = 64;
constexpr uint64_t kStateBytes = 150;  // three pages, the last one not full
const SteadyClock kClock;

KvLayout layout(uint32_t n_states, const std::vector<uint32_t>& windows = {0}) {
  KvLayout layout(kPageBytes, rules_of(windows));
  layout.state_bytes = kStateBytes;
  layout.n_states = n_states;
  return layout;
}

std::vector<TokenId> counting(uint32_t n, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

// Returns the state of a simulated model after these tokens; all zero after none.
std::vector<std::byte> state_after(std::span<const TokenId> tokens) {
  std::vector<std::byte> state(kStateBytes);
  uint64_t seed = 0;
  for (const TokenId token : tokens) seed = (seed + token + 1) * 0x9e3779b97f4a7c15ULL;
  std::mt19937_64 random(seed);
  for (std::byte& byte : state) byte = tokens.empty() ? std::byte{0} : std::byte(random() & 0xff);
  return state;
}

// A sequence that computes. Its pages contain its tokens, and its state depends on all tokens so
// far.
class Runner {
 public:
  Runner(KvCache& cache, std::vector<TokenId> tokens)
      : cache_(cache), tokens_(std::move(tokens)), table_(cache.make_table(kRoot)) {}

  // Returns the number of cached tokens, or std::nullopt if there is no room.
  std::optional<uint32_t> open() {
    const auto findable = std::span<const TokenId>(tokens_).first(tokens_.size() - 1);
    const auto found = open_prefix(cache_, table_, {kRoot, findable}, tokens_.size());
    if (!found) return std::nullopt;
    n_ = *found;
    check();
    return found;
  }

  // Computes up to the first n tokens, or as many as there is room for.
  void compute(uint32_t n) {
    ASSERT_LE(n, tokens_.size());
    n = n_ + cache_.make_room(table_, n_, n - n_);
    for (; n_ < n; ++n_) {
      for (uint32_t g = 0; g < table_.n_groups(); ++g) {
        table_.addresses(g)[n_ / kPageTokens][n_ % kPageTokens] = std::byte(tokens_[n_] & 0xff);
      }
    }
    std::ranges::copy(state_after(std::span(tokens_).first(n_)), table_.state());
    cache_.seal(table_, done());
  }
  bool keep(EvictionRank eviction_rank = EvictionRank::kNew) {
    return cache_.snapshots().keep(table_, done(), SnapshotKind::kEnd, eviction_rank);
  }
  void close() { cache_.close(table_, done()); }
  uint32_t n() const { return n_; }
  uint32_t n_tokens() const { return static_cast<uint32_t>(tokens_.size()); }

 private:
  std::span<const TokenId> done() const { return std::span(tokens_).first(n_); }
  // Checks that pages and state are those that the sequence would have computed.
  void check() {
    ASSERT_TRUE(table_.state());
    EXPECT_EQ(std::memcmp(table_.state(), state_after(done()).data(), kStateBytes), 0) << n_;
    for (uint32_t i = 0; i < n_; ++i) {
      if (!table_.holds(0, i / kPageTokens)) continue;
      EXPECT_EQ(table_.addresses(0)[i / kPageTokens][i % kPageTokens],
                std::byte(tokens_[i] & 0xff));
    }
  }

  KvCache& cache_;
  std::vector<TokenId> tokens_;
  PageTable table_;
  uint32_t n_ = 0;
};

class SnapshotTest : public testing::Test {
 protected:
  KvCache make(uint32_t n_pages, uint32_t n_states = 4) {
    return KvCache(memory_, n_pages * kPageBytes, layout(n_states), kClock);
  }
  // Computes the tokens and keeps the state after each of the numbers of tokens in `places`.
  static void keep_at(KvCache& cache, std::vector<TokenId> tokens,
                      const std::vector<uint32_t>& places,
                      EvictionRank eviction_rank = EvictionRank::kNew) {
    Runner runner(cache, std::move(tokens));
    ASSERT_TRUE(runner.open().has_value());
    for (const uint32_t n : places) {
      runner.compute(n);
      ASSERT_TRUE(runner.keep(eviction_rank));
    }
    runner.compute(runner.n_tokens());
    runner.close();
  }

  // Returns the number of cached tokens of a sequence that continues after n tokens.
  static uint32_t n_found(KvCache& cache, uint32_t n, TokenId first = 0) {
    const auto tokens = counting(n + 1, first);
    return cache.find({kRoot, tokens}).n_tokens();
  }

  PlainMemory memory_;
};

TEST_F(SnapshotTest, a_prefix_is_found_up_to_the_last_snapshot_of_it) {
  KvCache cache = make(40);
  keep_at(cache, counting(100), {32, 50, 90});
  Runner again(cache, counting(100));
  EXPECT_EQ(again.open(), 90u);
  Runner shorter(cache, counting(80));
  EXPECT_EQ(shorter.open(), 50u);
  Runner other(cache, counting(33));
  EXPECT_EQ(other.open(), 32u);
  Runner shortest(cache, counting(32));
  EXPECT_EQ(shortest.open(), 0u) << "all but the last token are asked for";
}

TEST_F(SnapshotTest, pages_without_a_snapshot_are_known_but_not_found) {
  KvCache cache = make(20);
  keep_at(cache, counting(100), {});
  const auto tokens = counting(90);
  const FoundPrefix found = cache.find({kRoot, tokens});
  EXPECT_EQ(found.n_tokens(), 0u);
  EXPECT_EQ(found.n_known(), 90u);
  EXPECT_EQ(found.report().miss, MissReason::kNoSnapshot);
  EXPECT_EQ(found.report().position, 0u);
}

TEST_F(SnapshotTest, a_snapshot_inside_a_page_serves_later_divergence) {
  KvCache cache = make(20);
  keep_at(cache, counting(64), {40});
  auto branch = counting(50);
  branch.push_back(999);
  branch.push_back(998);
  Runner runner(cache, branch);
  EXPECT_EQ(runner.open(), 40u);
  runner.compute(52);
  EXPECT_TRUE(runner.keep());
  runner.close();
  branch.push_back(7);
  Runner further(cache, branch);
  EXPECT_EQ(further.open(), 52u);
}

TEST_F(SnapshotTest, a_snapshot_takes_and_releases_its_pages_together) {
  KvCache cache = make(10);
  keep_at(cache, counting(64), {64});
  EXPECT_EQ(cache.counts().cached, 2u + 3u);
  EXPECT_EQ(cache.counts(1).cached, 3u) << "a group of their own";
  // Another sequence needs all pages.
  Runner large(cache, counting(32 * 8, 1000));
  ASSERT_EQ(large.open(), 0u);
  EXPECT_EQ(cache.counts(1).cached, 0u);
  EXPECT_EQ(cache.n_available(), 2u);
}

TEST_F(SnapshotTest, pages_that_a_snapshot_needs_outlive_it) {
  KvCache cache = make(12);
  keep_at(cache, counting(64), {64});           // 2 + 3
  keep_at(cache, counting(32, 500), {});        // 1
  Runner third(cache, counting(32 * 7, 1000));  // one page too few
  ASSERT_TRUE(third.open().has_value());
  Runner again(cache, counting(65));
  const auto tokens = counting(65);
  const uint32_t n = cache.find({kRoot, tokens}).n_tokens();
  EXPECT_TRUE(n == 64 || cache.counts(1).cached == 0) << "no snapshot without its pages";
}

TEST_F(SnapshotTest, no_more_sequences_run_than_have_a_state) {
  KvCache cache = make(20, 2);
  Runner a(cache, counting(10)), b(cache, counting(10)), c(cache, counting(10));
  ASSERT_TRUE(a.open() && b.open());
  EXPECT_FALSE(c.open());
  a.compute(10);
  a.close();
  EXPECT_TRUE(c.open());
}

TEST_F(SnapshotTest, a_state_slot_starts_empty) {
  KvCache cache = make(20, 1);
  keep_at(cache, counting(40), {});
  Runner next(cache, counting(40, 700));
  EXPECT_EQ(next.open(), 0u);  // open() checks the state's bytes
}

TEST_F(SnapshotTest, an_existing_snapshot_is_not_kept_again) {
  KvCache cache = make(30);
  keep_at(cache, counting(40), {40});
  keep_at(cache, counting(40), {40});
  EXPECT_EQ(cache.snapshots().n_kept(), 1u);
  EXPECT_EQ(cache.counts(1).cached, 3u);
}

TEST_F(SnapshotTest, a_tenant_finds_the_snapshots_of_its_own_and_those_that_two_know) {
  KvCache cache = make(60, 6);
  cache.pages().set_sharing(Sharing::kTwo);
  const auto tokens = counting(50);
  const auto run = [&](uint64_t tenant) {
    PageTable table = cache.make_table(kRoot);
    table.owner.tenant = tenant;
    const auto found = open_prefix(cache, table, {kRoot, std::span(tokens).first(49)}, 50);
    std::ranges::copy(state_after(std::span(tokens).first(45)), table.state());
    cache.seal(table, std::span(tokens).first(45));
    EXPECT_TRUE(cache.snapshots().keep(table, std::span(tokens).first(45), SnapshotKind::kEnd));
    cache.close(table, tokens);
    return found.value();
  };
  EXPECT_EQ(run(1), 0u);
  EXPECT_EQ(run(1), 45u);
  EXPECT_EQ(run(2), 0u) << "it is private";
  EXPECT_EQ(run(3), 45u) << "two computed it";
}

TEST_F(SnapshotTest, an_outdated_snapshot_is_evicted_first) {
  KvCache cache = make(16, 2);
  keep_at(cache, counting(40), {32});       // 2 + 3 pages
  keep_at(cache, counting(40, 500), {32});  // 2 + 3
  const auto first = counting(40), second = counting(40, 500);
  cache.snapshots().outdate(cache.find({kRoot, second}).snapshot()->key);
  Runner third(cache, counting(32 * 8, 1000));  // two pages too few
  ASSERT_TRUE(third.open().has_value());
  EXPECT_EQ(cache.find({kRoot, first}).n_tokens(), 32u) << "used longer ago, but not outdated";
  EXPECT_EQ(cache.find({kRoot, second}).n_tokens(), 0u);
}

TEST_F(SnapshotTest, pages_without_a_snapshot_are_evicted_first) {
  KvCache cache = make(12, 1);
  keep_at(cache, counting(64), {64});           // 2 + 3
  keep_at(cache, counting(64, 500), {});        // 2, used later
  Runner third(cache, counting(32 * 7, 1000));  // two pages too few
  ASSERT_TRUE(third.open().has_value());
  EXPECT_EQ(n_found(cache, 64), 64u);
}

TEST_F(SnapshotTest, the_page_of_a_tail_stays_as_long_as_its_snapshot) {
  KvCache cache = make(10, 1);
  keep_at(cache, counting(40), {40},
          EvictionRank::kFound);                // 2 + 3; the second page was found once less
  Runner other(cache, counting(32 * 6, 1000));  // one page too few
  ASSERT_TRUE(other.open().has_value());
  EXPECT_TRUE(n_found(cache, 40) == 40 || cache.counts(1).cached == 0);
}

TEST_F(SnapshotTest, a_continued_text_outlives_one_that_was_not) {
  KvCache cache = make(13, 1);
  keep_at(cache, counting(64), {64}, EvictionRank::kFound);  // 2 + 3
  keep_at(cache, counting(64, 500), {64});                   // 2 + 3, used later
  Runner third(cache, counting(32 * 4, 1000));               // one page too few
  ASSERT_TRUE(third.open().has_value());
  EXPECT_EQ(n_found(cache, 64), 64u);
  EXPECT_EQ(n_found(cache, 64, 500), 0u);
}

TEST_F(SnapshotTest, an_unused_slot_holds_a_snapshot_if_no_page_is_free) {
  KvCache cache = make(3, 3);
  keep_at(cache, counting(32), {32});
  keep_at(cache, counting(32, 500), {32});
  EXPECT_EQ(cache.n_available(), 3u) << "no page of tokens was taken for one";
  EXPECT_EQ(n_found(cache, 32), 32u);
  EXPECT_EQ(n_found(cache, 32, 500), 32u);
  // Sequences take the slots back, the least recently used one first.
  Runner a(cache, counting(10, 1000)), b(cache, counting(10, 2000)), c(cache, counting(10, 3000));
  ASSERT_TRUE(a.open().has_value());
  EXPECT_EQ(n_found(cache, 32), 32u) << "one was empty";
  ASSERT_TRUE(b.open().has_value());
  EXPECT_EQ(n_found(cache, 32), 0u);
  EXPECT_EQ(n_found(cache, 32, 500), 32u);
  ASSERT_TRUE(c.open().has_value());
  EXPECT_EQ(n_found(cache, 32, 500), 0u);
  for (Runner* runner : {&a, &b, &c}) runner->close();
  Runner next(cache, counting(32, 4000));
  ASSERT_TRUE(next.open().has_value());
  next.compute(32);
  EXPECT_FALSE(next.keep()) << "three were in use at once: they may be again";
}

TEST_F(SnapshotTest, a_snapshot_in_the_last_slot_becomes_the_state) {
  KvCache cache = make(4, 2);
  keep_at(cache, counting(64), {64});
  ASSERT_EQ(cache.pages().pool().reserved_counts().cached, 3u);
  Runner a(cache, counting(10, 1000)), b(cache, counting(70));
  ASSERT_TRUE(a.open().has_value());
  EXPECT_EQ(b.open(), 64u);  // open() checks the state's bytes
  EXPECT_EQ(cache.snapshots().states().n_free(), 0u);
  EXPECT_EQ(n_found(cache, 64), 0u);
  b.compute(70);
  EXPECT_EQ(b.n(), 70u);
}

// For random operations the cached tokens have the values that would have been computed, and the
// counts are consistent.
TEST_F(SnapshotTest, random_sequences_find_only_correct_states) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    KvCache cache(memory_, (12 + random() % 40) * kPageBytes,
                  layout(1 + random() % 4,
                         seed % 3 == 0 ? std::vector<uint32_t>{0, 40} : std::vector<uint32_t>{0}),
                  kClock);
    std::vector<std::unique_ptr<Runner>> running;
    for (uint32_t step = 0; step < 400; ++step) {
      if (running.size() < 3 && random() % 2 == 0) {
        // One of a few texts, which continues with another one at some position.
        auto tokens = counting(1 + random() % 120, 1000 * (random() % 3));
        const auto more = counting(1 + random() % 40, 100 * (random() % 4));
        tokens.insert(tokens.end(), more.begin(), more.end());
        auto runner = std::make_unique<Runner>(cache, tokens);
        if (runner->open()) running.push_back(std::move(runner));
      }
      if (running.empty()) continue;
      const size_t i = random() % running.size();
      Runner& runner = *running[i];
      runner.compute(runner.n() + random() % (runner.n_tokens() - runner.n() + 1));
      if (random() % 2 == 0) runner.keep();
      if (random() % 4 != 0) continue;
      runner.close();
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    }
    for (auto& runner : running) runner->close();
    const PageCounts counts = cache.counts();
    EXPECT_EQ(counts.leased + counts.sealed, 0u);
    EXPECT_EQ(counts.free + counts.cached, cache.n_pages());
    EXPECT_EQ(cache.snapshots().states().n_free(), cache.snapshots().states().n_slots());
    EXPECT_EQ(cache.counts(cache.layout().n_groups()).cached % 3, 0u);
  }
}

}  // namespace
}  // namespace kvik
