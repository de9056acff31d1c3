#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

// Tests pages that are private until two tenants have computed them, from the reader's point of
// view.
namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

constexpr size_t kPageBytes = 64;
constexpr uint64_t kAnn = 11, kBob = 22, kCat = 33;
const PageKey kRoot = root_key("test", "");
const SteadyClock kClock;

Tokens counting(uint32_t n, TokenId first = 0) {
  Tokens tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Shared {
  explicit Shared(uint32_t n_pages = 100, std::vector<uint32_t> windows = {0})
      : cache(memory, n_pages * kPageBytes, KvLayout(kPageBytes, rules_of(windows)), kClock) {
    cache.pages().set_sharing(Sharing::kTwo);
  }

  PageTable table_of(uint64_t tenant) const {
    PageTable table = cache.make_table(kRoot);
    table.owner.tenant = tenant;
    return table;
  }
  // Runs a sequence of these tokens from its lookup to its end. Returns the number of cached
  // tokens.
  uint32_t run(uint64_t tenant, const Tokens& tokens) {
    PageTable table = table_of(tenant);
    const uint32_t n_found = open_prefix(cache, table, {kRoot, tokens}, tokens.size()).value();
    cache.close(table, tokens);
    return n_found;
  }
  FoundPrefix look(uint64_t tenant, const Tokens& tokens) const {
    return cache.find({kRoot, tokens, tenant});
  }
  uint32_t n_found(uint64_t tenant, const Tokens& tokens) const {
    return look(tenant, tokens).n_tokens();
  }
  std::optional<MissReason> miss(uint64_t tenant, const Tokens& tokens) const {
    return look(tenant, tokens).report().miss;
  }

  PlainMemory memory;
  KvCache cache;
};

TEST(SharingMark, two_different_marks_join_to_all) {
  const SharingMark ann = mark_of_tenant(kAnn), bob = mark_of_tenant(kBob);
  EXPECT_EQ(joined(ann, ann), ann);
  EXPECT_EQ(joined(ann, bob), SharingMark::kAll);
  EXPECT_EQ(joined(SharingMark::kNoTenant, bob), bob);
  EXPECT_EQ(joined(ann, SharingMark::kNoTenant), ann);
  EXPECT_EQ(joined(SharingMark::kAll, bob), SharingMark::kAll);
  EXPECT_TRUE(may_hit(ann, ann));
  EXPECT_FALSE(may_hit(ann, bob));
  EXPECT_FALSE(may_hit(ann, SharingMark::kNoTenant));
  EXPECT_FALSE(may_hit(SharingMark::kNoTenant, SharingMark::kNoTenant));
  EXPECT_TRUE(may_hit(ann, SharingMark::kAll));
}

TEST(SharingMark, no_tenant_hash_equals_a_reserved_mark) {
  for (const uint64_t hash : {uint64_t{0}, uint64_t{1}, UINT64_MAX, UINT64_MAX - 1}) {
    EXPECT_NE(mark_of_tenant(hash), SharingMark::kNoTenant);
    EXPECT_NE(mark_of_tenant(hash), SharingMark::kAll);
  }
}

TEST(PrivatePages, loaded_pages_keep_the_mark_of_their_tier) {
  Shared shared;
  const auto seal_as = [&](const Tokens& tokens, SharingMark known) {
    PageTable table = shared.table_of(kAnn);
    EXPECT_TRUE(open_prefix(shared.cache, table, {kRoot, tokens, kAnn}, tokens.size()));
    shared.cache.seal(table, tokens, known);
  };
  seal_as(counting(64), SharingMark::kAll);
  EXPECT_EQ(shared.n_found(kBob, counting(64)), 64u);
  seal_as(counting(64, 100), mark_of_tenant(kAnn));
  EXPECT_EQ(shared.n_found(kBob, counting(64, 100)), 0u);
  EXPECT_EQ(shared.n_found(kAnn, counting(64, 100)), 64u);
}

TEST(PrivatePages, are_found_to_the_token_by_their_tenant) {
  Shared shared;
  EXPECT_EQ(shared.run(kAnn, counting(100)), 0u);
  EXPECT_EQ(shared.n_found(kAnn, counting(100)), 100u);
  EXPECT_EQ(shared.n_found(kAnn, counting(70) + counting(9, 500)), 70u);
}

TEST(PrivatePages, are_invisible_to_other_tenants) {
  Shared shared;
  shared.run(kAnn, counting(100));
  for (const uint32_t n : {1u, 31u, 32u, 33u, 64u, 99u, 100u, 128u}) {
    EXPECT_EQ(shared.n_found(kBob, counting(n)), 0u) << n;
    EXPECT_EQ(shared.miss(kBob, counting(n)), MissReason::kNeverSeen) << n;
  }
}

TEST(PrivatePages, that_two_tenants_computed_are_found_by_all) {
  Shared shared;
  shared.run(kAnn, counting(96) + counting(20, 500));
  EXPECT_EQ(shared.run(kBob, counting(96) + counting(20, 600)), 0u);
  EXPECT_EQ(shared.cache.counts().cached, 5u) << "three that are one's and the other's, two tails";
  EXPECT_EQ(shared.n_found(kCat, counting(96) + counting(20, 500)), 96u)
      << "not the first one's tail";
  EXPECT_EQ(shared.n_found(kCat, counting(80)), 80u) << "the head of a page that all know";
  EXPECT_EQ(shared.n_found(kBob, counting(96) + counting(20, 500)), 96u);
  EXPECT_EQ(shared.n_found(kAnn, counting(96) + counting(20, 500)), 116u);
}

TEST(PrivatePages, stay_private_if_one_tenant_recomputes_them) {
  Shared shared;
  PageTable first = shared.table_of(kAnn), second = shared.table_of(kAnn);
  ASSERT_TRUE(shared.cache.grow(first, 64) && shared.cache.grow(second, 64));
  shared.cache.close(first, counting(64));
  shared.cache.close(second, counting(64));
  EXPECT_EQ(shared.cache.counts().cached, 2u);
  EXPECT_EQ(shared.n_found(kBob, counting(64)), 0u);
}

// All tenants may read the first page. The page after it, which two tenants computed with different
// tokens, stays private even where its first tokens are the same.
TEST(PrivatePages, the_head_of_a_page_is_found_where_the_whole_page_is) {
  Shared shared;
  shared.run(kAnn, counting(32) + counting(10, 100) + counting(22, 200));
  shared.run(kBob, counting(32) + counting(10, 100) + counting(22, 300));
  EXPECT_EQ(shared.n_found(kCat, counting(32) + counting(20, 100)), 32u);
  EXPECT_EQ(shared.n_found(kBob, counting(32) + counting(20, 100)), 42u);
}

TEST(PrivatePages, a_last_page_of_two_tenants_is_found_by_all) {
  Shared shared;
  shared.run(kAnn, counting(40));
  EXPECT_EQ(shared.n_found(kCat, counting(40)), 0u);
  shared.run(kBob, counting(40));
  EXPECT_EQ(shared.n_found(kCat, counting(45)), 40u);
}

TEST(PrivatePages, a_longer_page_does_not_replace_another_tenants) {
  Shared shared;
  shared.run(kAnn, counting(10));
  shared.run(kBob, counting(32));
  EXPECT_EQ(shared.n_found(kAnn, counting(32)), 10u);
  EXPECT_EQ(shared.n_found(kBob, counting(32)), 32u);
  shared.run(kAnn, counting(32));
  EXPECT_EQ(shared.n_found(kAnn, counting(32)), 32u);
  EXPECT_EQ(shared.n_found(kCat, counting(32)), 32u);
}

TEST(PrivatePages, no_report_reveals_pages_of_another_tenant) {
  Shared shared(4);
  shared.run(kAnn, counting(64));
  shared.run(kAnn, counting(128, 500));  // evicts the pages of the first sequence
  EXPECT_EQ(shared.miss(kAnn, counting(64)), MissReason::kEvicted);
  EXPECT_EQ(shared.miss(kBob, counting(64)), MissReason::kNeverSeen);
}

TEST(PrivatePages, no_report_reveals_the_next_token_of_others) {
  Shared shared;
  shared.run(kAnn, counting(64));
  const Tokens other = counting(40) + counting(9, 700);
  EXPECT_EQ(shared.look(kAnn, other).report().miss, MissReason::kDiverged);
  EXPECT_FALSE(shared.look(kAnn, other).report().expected);
  shared.run(kBob, counting(64));
  EXPECT_EQ(shared.look(kBob, other).report().miss, MissReason::kDiverged);
  EXPECT_FALSE(shared.look(kBob, other).report().expected) << "it would tell who was first";
}

TEST(PrivatePages, pages_that_become_shared_trigger_a_new_lookup) {
  Shared shared;
  shared.run(kAnn, counting(64));
  PageTable of_bob = shared.table_of(kBob);
  ASSERT_TRUE(shared.cache.grow(of_bob, 64));
  const Tokens asked = counting(64);
  FoundPrefix found = shared.cache.look_up({kRoot, asked, kCat});
  EXPECT_EQ(found.n_tokens(), 0u);
  shared.cache.close(of_bob, asked);
  found = shared.cache.look_up({kRoot, asked, kCat}, std::move(found));
  EXPECT_EQ(found.n_tokens(), 64u);
}

TEST(PrivatePages, are_adopted_by_their_own_tenant_and_others_once_two_know_them) {
  Shared shared;
  PageTable table_of_ann = shared.table_of(kAnn), own = shared.table_of(kAnn);
  PageTable of_bob = shared.table_of(kBob), cats = shared.table_of(kCat);
  for (PageTable* table : {&table_of_ann, &own, &of_bob, &cats})
    ASSERT_TRUE(shared.cache.grow(*table, 64));
  shared.cache.seal(table_of_ann, counting(64));
  EXPECT_EQ(shared.cache.adopt(own, counting(64)), 64u);
  EXPECT_EQ(shared.cache.adopt(of_bob, counting(64)), 0u);
  shared.cache.seal(of_bob, counting(32));
  EXPECT_EQ(shared.cache.adopt(cats, counting(64)), 32u);
}

TEST(PrivatePages, their_continuation_is_returned_only_to_readers) {
  Shared shared;
  shared.run(kAnn, counting(100));
  const Tokens begin = counting(40);
  const auto next = [&](uint64_t tenant) {
    PageTable table = shared.table_of(tenant);
    const uint32_t n_found = open_prefix(shared.cache, table, {kRoot, begin}, 100).value();
    if (n_found == 0) shared.cache.seal(table, begin);
    Tokens out;
    shared.cache.append_continuation(table, begin, 50, out);
    return out;
  };
  EXPECT_EQ(next(kAnn), counting(50, 40));
  EXPECT_EQ(next(kBob), Tokens()) << "the first page is known to both now, the second is not";
  EXPECT_EQ(next(kAnn), counting(50, 40));
  shared.run(kBob, counting(64) + counting(10, 900));
  EXPECT_EQ(next(kCat), counting(24, 40));
}

TEST(PrivatePages, the_continuation_used_last_is_returned) {
  Shared shared;
  shared.run(kAnn, counting(32) + counting(8, 100));
  shared.run(kAnn, counting(32) + counting(8, 200));
  PageTable table = shared.table_of(kAnn);
  ASSERT_TRUE(open_prefix(shared.cache, table, {kRoot, counting(32)}, 64));
  Tokens out;
  shared.cache.append_continuation(table, counting(32), 5, out);
  EXPECT_EQ(out, counting(5, 200));
}

// If the page kept the rank from the first tenant's uses, its lifetime would reveal them.
TEST(PrivatePages, rank_as_new_once_a_second_tenant_computed_them) {
  Shared shared(4);
  for (int i = 0; i < 3; ++i) shared.run(kAnn, counting(32));
  EXPECT_EQ(shared.run(kBob, counting(32)), 0u);
  shared.run(kBob, counting(32, 500));
  EXPECT_EQ(shared.run(kBob, counting(64, 600)), 0u);
  shared.run(kBob, counting(32, 800));
  EXPECT_EQ(shared.n_found(kBob, counting(32)), 0u) << "as any page that was computed once";
  EXPECT_EQ(shared.n_found(kBob, counting(32, 500)), 32u);
}

TEST(PrivatePages, of_windowed_groups_follow_the_same_rule) {
  Shared shared(60, {0, 64});
  shared.run(kAnn, counting(96));
  EXPECT_EQ(shared.n_found(kBob, counting(96)), 0u);
  EXPECT_EQ(shared.run(kBob, counting(96)), 0u);
  EXPECT_EQ(shared.n_found(kCat, counting(90)), 90u);
}

TEST(PrivatePages, do_not_exist_if_all_tenants_share) {
  Shared shared;
  shared.cache.pages().set_sharing(Sharing::kAll);
  shared.run(kAnn, counting(100));
  EXPECT_EQ(shared.n_found(kBob, counting(100)), 100u);
}

}  // namespace
}  // namespace kvik
