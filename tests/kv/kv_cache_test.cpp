#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

namespace kvik {
namespace {

const PageKey kRoot = root_key("test", "");

std::vector<TokenId> counting(uint32_t n, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

// Looks up the tokens as for a waiting request.
uint32_t n_known(KvCache& cache, const std::vector<TokenId>& tokens) {
  return cache.look_up({kRoot, tokens}).n_tokens();
}

// Runs a sequence of these tokens from beginning to end and writes each token's value to its place
// in the page. Returns the number of cached tokens.
uint32_t run_sequence(KvCache& cache, const std::vector<TokenId>& tokens) {
  PageTable table;
  const auto found = open_prefix(cache, table, {kRoot, tokens}, tokens.size());
  EXPECT_TRUE(found.has_value());
  for (uint32_t t = *found; t < tokens.size(); ++t) {
    table.addresses()[t / kPageTokens][t % kPageTokens] = std::byte(tokens[t]);
  }
  cache.close(table, tokens);
  EXPECT_EQ(table.n_pages(), 0u);
  return *found;
}

TEST(KvCache, holds_as_many_pages_as_the_budget_and_no_more) {
  PlainMemory memory;
  KvCache cache(memory, 1000, 256);
  EXPECT_EQ(cache.counts().free, 3u);
  EXPECT_EQ(cache.n_tokens_max(), 96u);
}

TEST(KvCache, grows_a_table_page_by_page) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  PageTable table;
  EXPECT_TRUE(cache.grow(table, 1));
  EXPECT_EQ(table.n_pages(), 1u);
  EXPECT_TRUE(cache.grow(table, 32));
  EXPECT_EQ(table.n_pages(), 1u);
  EXPECT_TRUE(cache.grow(table, 33));
  EXPECT_EQ(table.n_pages(), 2u);
  EXPECT_EQ(table.addresses().size(), 2u);
  EXPECT_NE(table.addresses()[0], table.addresses()[1]);
}

TEST(KvCache, takes_no_pages_if_not_all_are_available) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  PageTable table;
  EXPECT_FALSE(cache.grow(table, 5 * 32));
  EXPECT_EQ(table.n_pages(), 0u);
  EXPECT_EQ(cache.counts().free, 4u);
}

TEST(KvCache, a_page_taken_again_is_cleared) {
  PlainMemory memory;
  KvCache cache(memory, 64, 64);
  PageTable table;
  ASSERT_TRUE(cache.grow(table, 1));
  std::memset(table.addresses()[0], 0xff, 64);
  table.clear();
  EXPECT_EQ(cache.counts().free, 1u);
  ASSERT_TRUE(cache.grow(table, 1));
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(table.addresses()[0][i], std::byte{0});
}

TEST(KvCache, a_sequence_that_ended_is_found_to_the_token) {
  PlainMemory memory;
  KvCache cache(memory, 16 * 64, 64);
  EXPECT_EQ(run_sequence(cache, counting(100)), 0u);
  EXPECT_EQ(cache.counts().cached, 4u);
  EXPECT_EQ(cache.counts().leased + cache.counts().sealed, 0u);
  for (const uint32_t n : {1u, 31u, 32u, 33u, 64u, 95u, 99u, 100u}) {
    PageTable table;
    EXPECT_EQ(open_prefix(cache, table, {kRoot, counting(n)}, n), n) << n;
    for (uint32_t t = 0; t < n; ++t) {
      EXPECT_EQ(table.addresses()[t / kPageTokens][t % kPageTokens], std::byte(t));
    }
  }
}

TEST(KvCache, a_prefix_that_leaves_a_page_in_its_middle_is_copied_not_shared) {
  PlainMemory memory;
  KvCache cache(memory, 16 * 64, 64);
  run_sequence(cache, counting(40));
  auto tokens = counting(36);
  tokens.back() = 999;
  PageTable table;
  ASSERT_EQ(open_prefix(cache, table, {kRoot, tokens}, 40), 35u);
  table.addresses()[1][3] = std::byte{77};  // this sequence writes to its own copy
  PageTable other;
  ASSERT_EQ(open_prefix(cache, other, {kRoot, counting(40)}, 40), 40u);
  EXPECT_EQ(other.addresses()[0], table.addresses()[0]) << "a whole page is shared";
  EXPECT_NE(other.addresses()[1], table.addresses()[1]);
  EXPECT_EQ(other.addresses()[1][3], std::byte{35});
}

TEST(KvCache, a_page_is_found_while_its_sequence_still_runs) {
  PlainMemory memory;
  KvCache cache(memory, 16 * 64, 64);
  PageTable maker;
  ASSERT_EQ(open_prefix(cache, maker, {kRoot, counting(70)}, 70), 0u);
  cache.seal(maker, counting(63));
  EXPECT_EQ(cache.counts().sealed, 1u);
  PageTable other;
  EXPECT_EQ(open_prefix(cache, other, {kRoot, counting(70)}, 70), 32u);
  EXPECT_EQ(other.addresses()[0], maker.addresses()[0]);
}

TEST(KvCache, two_that_computed_the_same_page_end_with_one) {
  PlainMemory memory;
  KvCache cache(memory, 16 * 64, 64);
  PageTable first, second;
  ASSERT_EQ(open_prefix(cache, first, {kRoot, counting(40)}, 40), 0u);
  ASSERT_EQ(open_prefix(cache, second, {kRoot, counting(40)}, 40), 0u);
  cache.seal(first, counting(40));
  cache.seal(second, counting(40));
  EXPECT_EQ(first.addresses()[0], second.addresses()[0]);
  EXPECT_EQ(cache.counts().sealed, 1u);
  EXPECT_EQ(cache.counts().leased, 2u);
}

TEST(KvCache, unused_pages_are_evicted_and_used_ones_stay) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  run_sequence(cache, counting(64));
  run_sequence(cache, counting(64, 1000));
  EXPECT_EQ(cache.counts().cached, 4u);
  PageTable table;
  ASSERT_EQ(open_prefix(cache, table, {kRoot, counting(64)}, 64), 64u);
  EXPECT_TRUE(cache.grow(table, 128));
  EXPECT_EQ(cache.counts().cached, 0u);
  EXPECT_EQ(cache.pages().n_evictions(), 2u);
  EXPECT_FALSE(cache.grow(table, 129));
  EXPECT_EQ(table.n_pages(), 4u);
}

TEST(KvCache, pages_of_waiting_requests_are_evicted_last) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  run_sequence(cache, counting(64));
  run_sequence(cache, counting(64, 1000));
  EXPECT_EQ(n_known(cache, counting(64)), 64u);
  PageTable table;
  EXPECT_TRUE(cache.grow(table, 64));
  EXPECT_EQ(n_known(cache, counting(64)), 64u);
  EXPECT_EQ(n_known(cache, counting(64, 1000)), 0u);
}

TEST(KvCache, changed_pages_trigger_a_new_lookup) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  const auto tokens = counting(64);
  const PrefixQuery query{kRoot, tokens};
  FoundPrefix found = cache.find(query);
  EXPECT_EQ(found.n_tokens(), 0u);
  EXPECT_EQ(found.report().miss, MissReason::kNeverSeen);
  run_sequence(cache, tokens);
  found = cache.find(query, std::move(found));
  EXPECT_EQ(found.n_tokens(), 64u);
  EXPECT_EQ(found.report().miss, MissReason::kNone);
  PageTable other;
  ASSERT_TRUE(cache.grow(other, 96));
  found = cache.find(query, std::move(found));
  EXPECT_EQ(found.n_tokens(), 32u);
  EXPECT_EQ(found.report().miss, MissReason::kEvicted);
  found = cache.find({kRoot, query.tokens.first(20)}, std::move(found));
  EXPECT_EQ(found.n_tokens(), 20u) << "another list of tokens";
}

TEST(KvCache, a_held_prefix_is_not_evicted) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  const auto tokens = counting(64);
  const PrefixQuery query{kRoot, tokens};
  run_sequence(cache, tokens);
  FoundPrefix found = cache.find(query);
  cache.hold(found);
  PageTable other;
  EXPECT_FALSE(cache.grow(other, 96));
  EXPECT_TRUE(cache.grow(other, 64));
  PageTable table;
  EXPECT_TRUE(cache.open(table, query, found, 64));
  EXPECT_EQ(found.n_tokens(), 64u);
  table.clear();
  EXPECT_FALSE(cache.grow(other, 128));
  found.let_go();
  EXPECT_TRUE(cache.grow(other, 128));
}

TEST(KvCache, tier_tokens_are_reported_separately) {
  PlainMemory memory;
  KvCache cache(memory, 8 * 64, 64);
  const auto tokens = counting(96);
  const PrefixQuery query{kRoot, tokens};
  run_sequence(cache, counting(32));
  FoundPrefix found = cache.find(query);
  found.begin_fetch();
  const TierPage page{.root = kRoot,
                      .parent = found.last_key(),
                      .key = child_key(found.last_key(), std::span(tokens).subspan(32, 32)),
                      .group = 0,
                      .tokens = {tokens.begin() + 32, tokens.begin() + 64}};
  std::vector<std::byte> bytes(64);
  const auto lane = memory.make_lane({bytes});
  found.hold(*cache.pages().insert_fetched(page, {*lane, 0, bytes.size()},
                                           {.root = page.root, .tokens = {}}));
  found.note_tier_miss(MissReason::kTierDamaged);
  PageTable table;
  ASSERT_TRUE(cache.open(table, query, found, 96));
  const CacheReport report = found.report();
  EXPECT_EQ(report.ram_tokens, 32u);
  EXPECT_EQ(report.tier_tokens, 32u);
  EXPECT_EQ(report.miss, MissReason::kTierDamaged);
  EXPECT_EQ(report.position, 64u);
}

TEST(KvCache, a_table_that_cannot_be_opened_takes_nothing) {
  PlainMemory memory;
  KvCache cache(memory, 4 * 64, 64);
  run_sequence(cache, counting(64));
  PageTable holder;
  ASSERT_TRUE(cache.grow(holder, 64));
  PageTable table;
  EXPECT_EQ(open_prefix(cache, table, {kRoot, counting(64)}, 160), std::nullopt);
  EXPECT_EQ(table.n_pages(), 0u);
  EXPECT_EQ(cache.counts().cached, 2u);
}

TEST(KvCache, random_conversations_leak_no_page) {
  PlainMemory memory;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    KvCache cache(memory, 24 * 64, 64);
    struct Live {
      PageTable table;
      std::vector<TokenId> tokens;
      uint32_t n_cached;
    };
    std::vector<Live> live;
    for (int step = 0; step < 3000; ++step) {
      const uint32_t operation = random() % 8;
      if (operation < 2 && live.size() < 6) {
        auto tokens = counting(1 + random() % 150, 1000 * (random() % 3));
        Live next{.table = {}, .tokens = tokens, .n_cached = 0};
        const auto found = open_prefix(cache, next.table, {kRoot, tokens}, tokens.size());
        if (!found) continue;
        ASSERT_LE(*found, tokens.size());
        next.n_cached = *found;
        live.push_back(std::move(next));
      } else if (operation < 6 && !live.empty()) {
        Live& l = live[random() % live.size()];
        l.n_cached =
            std::min<uint32_t>(l.n_cached + random() % 40, static_cast<uint32_t>(l.tokens.size()));
        cache.seal(l.table, std::span(l.tokens).first(l.n_cached));
        if (l.n_cached < l.tokens.size() || !cache.grow(l.table, l.tokens.size() + 1)) continue;
        l.tokens.push_back(random() % 4);
      } else if (!live.empty()) {
        const size_t i = random() % live.size();
        cache.close(live[i].table, std::span(live[i].tokens).first(live[i].n_cached));
        live.erase(live.begin() + static_cast<ptrdiff_t>(i));
      }
      ASSERT_EQ(cache.counts().total(), 24u);
    }
    for (Live& l : live) cache.close(l.table, std::span(l.tokens).first(l.n_cached));
    EXPECT_EQ(cache.counts().leased + cache.counts().sealed, 0u);
    PageTable all;
    EXPECT_TRUE(cache.grow(all, 24 * kPageTokens)) << "some page can never be evicted";
  }
}

}  // namespace
}  // namespace kvik
