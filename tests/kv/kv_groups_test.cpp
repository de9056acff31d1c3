#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

// Tests of layers with a sliding window: their group releases pages that leave the window, and a
// prefix is found with only the pages that its window covers.
namespace kvik {
namespace {

const PageKey kRoot = root_key("test", "");
constexpr size_t kPageBytes = 64;

std::vector<TokenId> counting(uint32_t n, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

class GroupsTest : public testing::Test {
 protected:
  KvCache make(uint32_t n_pages, const std::vector<uint32_t>& windows) {
    windows_ = windows;
    return KvCache(memory_, n_pages * kPageBytes, KvLayout(kPageBytes, rules_of(windows)), clock_);
  }

  // The value that a test writes for a token and group in place of K and V.
  static std::byte mark(TokenId token, uint32_t group) { return std::byte(token * 7 + group); }

  // Computes the tokens from n_cached up to n, in chunks.
  void compute(KvCache& cache, PageTable& table, const std::vector<TokenId>& tokens,
               uint32_t& n_cached, uint32_t n, uint32_t chunk = 1000) {
    while (n_cached < n) {
      ASSERT_TRUE(cache.grow(table, tokens.size()));
      const uint32_t n_new = cache.make_room(table, n_cached, std::min(chunk, n - n_cached));
      ASSERT_GT(n_new, 0u);
      for (uint32_t g = 0; g < table.n_groups(); ++g) {
        for (uint32_t t = n_cached; t < n_cached + n_new; ++t) {
          table.addresses(g)[t / kPageTokens][t % kPageTokens] = mark(tokens[t], g);
        }
      }
      n_cached += n_new;
      cache.seal(table, std::span(tokens).first(n_cached));
      cache.slide(table, n_cached);
      check_seen(table, tokens, n_cached);
    }
  }

  // Checks that all tokens which the token after n_cached attends to are there.
  void check_seen(const PageTable& table, const std::vector<TokenId>& tokens,
                  uint32_t n_cached) const {
    for (uint32_t g = 0; g < table.n_groups(); ++g) {
      const uint32_t window = windows_[g];
      const uint32_t first = window > 0 && n_cached + 1 > window ? n_cached + 1 - window : 0;
      for (uint32_t t = first; t < n_cached; ++t) {
        ASSERT_TRUE(table.holds(g, t / kPageTokens)) << "group " << g << " token " << t;
        ASSERT_EQ(table.addresses(g)[t / kPageTokens][t % kPageTokens], mark(tokens[t], g));
      }
    }
  }

  static uint32_t n_held(const KvCache& cache, uint32_t group) {
    return cache.counts(group).leased + cache.counts(group).sealed;
  }

  // Runs a sequence from beginning to end. Returns the number of cached tokens.
  uint32_t run(KvCache& cache, const std::vector<TokenId>& tokens, uint32_t chunk = 1000) {
    PageTable table = cache.make_table(kRoot);
    auto found = open_prefix(cache, table, {kRoot, tokens}, tokens.size());
    EXPECT_TRUE(found.has_value());
    if (!found) return 0;
    check_seen(table, tokens, *found);
    uint32_t n_cached = *found;
    compute(cache, table, tokens, n_cached, static_cast<uint32_t>(tokens.size()), chunk);
    cache.close(table, tokens);
    return *found;
  }

  std::vector<uint32_t> windows_;
  PlainMemory memory_;
  SteadyClock clock_;
};

TEST_F(GroupsTest, pages_outside_the_window_are_released) {
  KvCache cache = make(200, {0, 64});
  PageTable table = cache.make_table(kRoot);
  const auto tokens = counting(1000);
  ASSERT_EQ(open_prefix(cache, table, {kRoot, {}}, 1), 0u);
  uint32_t n_cached = 0;
  for (uint32_t n = 1; n <= 1000; ++n) {
    PageTable& t = table;
    ASSERT_TRUE(cache.grow(t, n));
    compute(cache, t, std::vector(tokens.begin(), tokens.begin() + n), n_cached, n);
    ASSERT_LE(n_held(cache, 1), 64 / kPageTokens + 2);
  }
  EXPECT_EQ(n_held(cache, 0), 32u);
  EXPECT_EQ(table.addresses(1)[0], nullptr);
  EXPECT_NE(table.addresses(0)[0], nullptr);
  EXPECT_GT(cache.counts(1).cached, 25u) << "they stay findable";
}

TEST_F(GroupsTest, a_prompt_holds_no_more_than_its_window_and_one_step) {
  KvCache cache = make(200, {96});
  PageTable table = cache.make_table(kRoot);
  const auto tokens = counting(2000);
  ASSERT_EQ(open_prefix(cache, table, {kRoot, tokens}, tokens.size()), 0u);
  EXPECT_LE(n_held(cache, 0), 96 / kPageTokens + 2) << "not the whole prompt";
  uint32_t n_cached = 0;
  while (n_cached < 2000) {
    const uint32_t n = std::min(n_cached + 128, 2000u);
    compute(cache, table, tokens, n_cached, n);
    ASSERT_LE(n_held(cache, 0), 96 / kPageTokens + 2);
  }
}

TEST_F(GroupsTest, a_step_is_cut_to_the_pages_that_there_are) {
  KvCache cache = make(6, {64});
  const auto tokens = counting(900);
  EXPECT_EQ(run(cache, tokens), 0u) << "900 tokens through 6 pages";
  EXPECT_EQ(cache.counts().leased + cache.counts().sealed, 0u);
}

TEST_F(GroupsTest, a_conversation_past_its_window_is_found_with_the_windows_pages_alone) {
  for (const std::vector<uint32_t>& windows :
       {std::vector<uint32_t>{64}, {0, 64}, {40, 40}, {0, 33, 33}}) {
    KvCache cache = make(300, windows);
    EXPECT_EQ(run(cache, counting(700)), 0u);
    EXPECT_EQ(run(cache, counting(750)), 700u);
    EXPECT_EQ(run(cache, counting(741)), 741u);
  }
}

TEST_F(GroupsTest, for_every_length_a_prefix_is_found_whose_pages_are_all_there) {
  KvCache cache = make(300, {0, 50});
  run(cache, counting(200), 17);
  for (uint32_t n = 1; n <= 200; ++n) {
    PageTable table = cache.make_table(kRoot);
    const auto tokens = counting(n);
    ASSERT_EQ(open_prefix(cache, table, {kRoot, tokens}, n), n);
    check_seen(table, tokens, n);
  }
}

// If pages of the window were evicted, a shorter prefix is found. Pages of a windowed group are
// evicted first if they were not used again.
TEST_F(GroupsTest, evicted_window_pages_shorten_the_found_prefix) {
  KvCache cache = make(46, {0, 64});
  const auto first = counting(640);
  run(cache, first);
  // The pages of the window at position 320 are evicted; those of the last tokens are not, because
  // they were used again.
  PageTable table = cache.make_table(kRoot);
  ASSERT_EQ(open_prefix(cache, table, {kRoot, first}, 640), 640u);
  PageTable other = cache.make_table(kRoot);
  ASSERT_TRUE(cache.grow(other, 32 * 12));
  other.clear();
  table.clear();
  auto branch = counting(320);
  branch.push_back(5000);
  PageTable third = cache.make_table(kRoot);
  FoundPrefix found;
  ASSERT_TRUE(cache.open(third, {kRoot, branch}, found, branch.size()));
  EXPECT_LT(found.n_tokens(), 320u);
  check_seen(third, branch, found.n_tokens());
  EXPECT_EQ(found.report().miss, MissReason::kEvicted);
  EXPECT_EQ(found.report().position, found.n_tokens());
  third.clear();
  EXPECT_EQ(run(cache, first), 640u) << "the conversation itself continues";
}

TEST_F(GroupsTest, a_shrunk_table_releases_pages_and_can_grow) {
  KvCache cache = make(60, {0, 64});
  PageTable table = cache.make_table(kRoot);
  const auto tokens = counting(400);
  ASSERT_EQ(open_prefix(cache, table, {kRoot, {}}, 1), 0u);
  uint32_t n_cached = 0;
  compute(cache, table, std::vector(tokens.begin(), tokens.begin() + 200), n_cached, 200);
  ASSERT_TRUE(cache.grow(table, 300));
  ASSERT_EQ(cache.make_room(table, n_cached, 100), 100u);
  EXPECT_EQ(n_held(cache, 0), 10u);
  cache.shrink(table, 201);
  EXPECT_EQ(n_held(cache, 0), 7u);
  EXPECT_LE(n_held(cache, 1), 4u);
  check_seen(table, tokens, n_cached);
  compute(cache, table, tokens, n_cached, 400);
}

TEST_F(GroupsTest, any_free_page_serves_any_group) {
  KvCache cache = make(40, {0, 32});
  run(cache, counting(400));
  EXPECT_GT(cache.counts(0).cached, 10u);
  EXPECT_GT(cache.counts(1).cached, 10u);
  PageTable table = cache.make_table(kRoot);
  EXPECT_TRUE(cache.grow(table, 32 * 38)) << "38 pages that see everything and 2 with a window";
  EXPECT_EQ(n_held(cache, 0), 38u);
  EXPECT_EQ(n_held(cache, 1), 2u);
}

TEST_F(GroupsTest, a_layout_says_how_many_tokens_its_pages_hold) {
  EXPECT_EQ(tokens_held(KvLayout(1), 10), 320u);
  EXPECT_EQ(tokens_held(KvLayout(1, rules_of({0, 0})), 10), 160u);
  EXPECT_EQ(tokens_held(KvLayout(1, rules_of({0, 64})), 10), 7 * 32u)
      << "3 pages hold any window of 64";
  EXPECT_EQ(tokens_held(KvLayout(1, rules_of({64})), 2), 64u);
  EXPECT_GT(tokens_held(KvLayout(1, rules_of({64})), 3), 1000000u);
  EXPECT_EQ(tokens_held(KvLayout(1, rules_of({0, 64})), 1), 0u);
}

}  // namespace
}  // namespace kvik
