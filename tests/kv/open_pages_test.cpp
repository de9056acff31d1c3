#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

// With open pages a prefix is found at full pages and inside the last page of an ended sequence:
// its open page stays cached. Each running sequence has a slot.
namespace kvik {
namespace {

constexpr size_t kPageBytes = 64;
constexpr size_t kOpenBytes = 250;  // a snapshot takes four pages
constexpr uint32_t kSnapshotPages = 4;
const PageKey kRoot = root_key("test", "");

std::vector<TokenId> counting(uint32_t n, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

KvLayout layout(uint32_t n_slots, const std::vector<uint32_t>& windows = {0}) {
  KvLayout layout(kPageBytes, rules_of(windows));
  layout.open_page_bytes = kOpenBytes;
  layout.n_open_slots = n_slots;
  return layout;
}

class OpenPages : public testing::Test {
 protected:
  KvCache make(uint32_t n_pages, uint32_t n_slots = 2, const std::vector<uint32_t>& windows = {0}) {
    return KvCache(memory_, n_pages * kPageBytes, layout(n_slots, windows), clock_);
  }

  // Runs a sequence from beginning to end. Returns the number of cached tokens.
  static uint32_t run(KvCache& cache, const std::vector<TokenId>& tokens) {
    PageTable table = cache.make_table(kRoot);
    const auto found = open_prefix(cache, table, {kRoot, tokens}, tokens.size());
    EXPECT_TRUE(found.has_value());
    for (uint32_t n = found.value_or(0); n < tokens.size();) {
      const uint32_t n_rest = static_cast<uint32_t>(tokens.size()) - n;
      n += cache.make_room(table, n, std::min(n_rest, 20u));
      cache.seal(table, std::span(tokens).first(n));
      cache.slide(table, n);
    }
    cache.close(table, tokens);
    EXPECT_TRUE(table.is_empty());
    return found.value_or(0);
  }

  static CacheReport report(KvCache& cache, const std::vector<TokenId>& tokens) {
    return cache.find({kRoot, tokens}).report();
  }

  PlainMemory memory_;
  SteadyClock clock_;
};

TEST_F(OpenPages, a_prefix_is_found_at_whole_pages_and_inside_the_last_one) {
  for (const uint32_t n : {1u, 31u, 32u, 33u, 63u, 64u, 65u, 95u, 96u, 97u, 110u, 119u, 120u}) {
    KvCache cache = make(40);
    EXPECT_EQ(run(cache, counting(120)), 0u);
    auto tokens = counting(150);
    for (uint32_t i = n; i < 150; ++i) tokens[i] += 1000;
    EXPECT_EQ(run(cache, tokens), n > 96 ? n : n / 32 * 32) << n;
  }
}

TEST_F(OpenPages, a_conversation_goes_on_at_its_last_token) {
  KvCache cache = make(200);
  EXPECT_EQ(run(cache, counting(5)), 0u);
  uint32_t n_before = 5;
  for (const uint32_t n : {6u, 20u, 31u, 33u, 64u, 65u, 90u, 200u}) {
    EXPECT_EQ(run(cache, counting(n)), n_before);
    n_before = n;
  }
}

TEST_F(OpenPages, the_last_page_is_kept_with_its_open_page) {
  KvCache cache = make(20);
  run(cache, counting(100));
  EXPECT_EQ(cache.counts().cached, 3 + 1 + kSnapshotPages);
  run(cache, counting(32, 500));
  EXPECT_EQ(cache.counts().cached, 3 + 1 + kSnapshotPages + 1) << "a full page has none";
  // The same sequence again, and one that ends earlier in the same page: the existing page is used.
  run(cache, counting(100));
  run(cache, counting(98));
  EXPECT_EQ(cache.counts().cached, 3 + 1 + kSnapshotPages + 1);
}

TEST_F(OpenPages, resuming_inside_a_page_restores_its_bytes) {
  for (const uint32_t index : {0u, 1u, 2u}) {
    KvCache cache = make(40);
    const auto tokens = counting(index * 32 + 9);
    PageTable table = cache.make_table(kRoot);
    ASSERT_TRUE(cache.grow(table, tokens.size()));
    const uint64_t offset = index % 2 * kOpenBytes;
    for (size_t i = 0; i < kOpenBytes; ++i) table.open_pages()[offset + i] = std::byte(i);
    std::memset(table.addresses()[index], 7, kPageBytes);
    cache.close(table, tokens);

    // Another sequence uses the slot in between.
    ASSERT_TRUE(cache.grow(table, 40));
    std::memset(table.open_pages(), 9, 2 * kOpenBytes);
    table.clear();

    const auto more = counting(300);
    ASSERT_EQ(open_prefix(cache, table, {kRoot, more}, more.size()), tokens.size());
    EXPECT_EQ(table.addresses()[index][0], std::byte{7});
    for (size_t i = 0; i < kOpenBytes; ++i) {
      ASSERT_EQ(table.open_pages()[offset + i], std::byte(i)) << i;
    }
  }
}

TEST_F(OpenPages, the_page_in_which_a_prompt_ends_is_kept_with_its_open_page_when_it_is_full) {
  for (const uint32_t n_prompt : {33u, 50u, 64u}) {
    KvCache cache = make(40);
    const auto tokens = counting(130);
    PageTable table = cache.make_table(kRoot);
    table.owner.n_prompt = n_prompt;
    ASSERT_TRUE(cache.grow(table, tokens.size()));
    for (const uint32_t n : {n_prompt, 64u, 70u, 96u, 130u}) {
      // A page keeps its half of the slot until the page after the next one begins.
      std::memset(table.open_pages() + (n - 1) / 32 % 2 * kOpenBytes, int(n - 1) / 32, kOpenBytes);
      cache.seal(table, std::span(tokens).first(n));
    }
    EXPECT_EQ(cache.counts().sealed, 4u);
    EXPECT_EQ(cache.counts().cached, kSnapshotPages) << "no other page has one";
    cache.close(table, tokens);

    auto other = counting(300);
    other[60] = 7;
    ASSERT_EQ(open_prefix(cache, table, {kRoot, other}, other.size()), 60u);
    for (size_t i = 0; i < kOpenBytes; ++i) {
      ASSERT_EQ(table.open_pages()[kOpenBytes + i], std::byte{1}) << i;
    }
  }
}

TEST_F(OpenPages, an_overwritten_open_page_is_not_kept) {
  KvCache cache = make(40);
  PageTable table = cache.make_table(kRoot);
  table.owner.n_prompt = 50;
  const auto tokens = counting(100);
  ASSERT_TRUE(cache.grow(table, tokens.size()));
  cache.seal(table, std::span(tokens).first(20));
  cache.seal(table, tokens);  // computed again after a preemption, in one step
  EXPECT_EQ(cache.counts().sealed, 3u);
  EXPECT_EQ(cache.counts().cached, 0u);
}

// OpenPages::add() may have moved the open page before the step was interrupted.
TEST_F(OpenPages, the_last_page_of_an_aborted_step_is_not_kept) {
  for (const bool is_in_step : {false, true}) {
    KvCache cache = make(40);
    PageTable table = cache.make_table(kRoot);
    ASSERT_TRUE(cache.grow(table, 600));
    table.is_in_step = is_in_step;
    cache.close(table, counting(50));
    EXPECT_EQ(cache.find({kRoot, counting(50)}).n_tokens(), is_in_step ? 32u : 50u);
  }
}

TEST_F(OpenPages, the_last_page_needs_room_for_its_open_page) {
  KvCache cache = make(kSnapshotPages + 3);
  PageTable held = cache.make_table(kRoot);
  ASSERT_TRUE(cache.grow(held, 64));  // two pages stay in use
  run(cache, counting(60));           // one of its pages is full; the other would need four more
  EXPECT_EQ(cache.counts().cached, 1u);
  held.clear();
  run(cache, counting(60));
  EXPECT_EQ(cache.counts().cached, 2 + kSnapshotPages);
}

// A prompt that needs all of the memory gets it, even if the last page of its prefix is kept there.
TEST_F(OpenPages, a_kept_page_can_be_evicted) {
  KvCache cache = make(10);
  run(cache, counting(40));
  EXPECT_EQ(cache.counts().cached, 2 + kSnapshotPages);
  EXPECT_EQ(run(cache, counting(320)), 32u) << "no room to copy it";
  EXPECT_EQ(cache.counts().cached, 10u);
  EXPECT_EQ(run(cache, counting(320)), 320u);
}

TEST_F(OpenPages, what_a_held_prefix_keeps_in_place_is_not_available_to_others) {
  KvCache cache = make(12);
  run(cache, counting(40));  // 2 pages, 4 of a snapshot
  EXPECT_EQ(cache.n_available(), 12u);
  FoundPrefix found = cache.look_up({kRoot, counting(40)});
  ASSERT_EQ(found.n_tokens(), 40u);
  cache.hold(found);
  EXPECT_EQ(cache.n_available(), 12u - 2 - kSnapshotPages);
  PageTable table = cache.make_table(kRoot);
  EXPECT_FALSE(cache.grow(table, 7 * 32));
  EXPECT_TRUE(cache.grow(table, 6 * 32));
  found.let_go();
  table.clear();
  EXPECT_EQ(cache.n_available(), 12u);
}

TEST_F(OpenPages, continued_open_pages_are_evicted_first) {
  KvCache cache = make(16);
  run(cache, counting(40, 500));  // 2 pages, 4 of a snapshot
  run(cache, counting(40));       // the same
  run(cache, counting(64));       // continues it: 1 page more
  EXPECT_EQ(cache.counts().free, 16u - 6 - 6 - 1);
  // The second snapshot has been continued, so it is evicted before the first one, which is older.
  PageTable table = cache.make_table(kRoot);
  ASSERT_TRUE(cache.grow(table, 8 * 32));
  table.clear();
  EXPECT_EQ(cache.find({kRoot, counting(40, 500)}).n_tokens(), 40u);
  EXPECT_EQ(cache.find({kRoot, counting(64)}).n_tokens(), 64u);
  EXPECT_EQ(cache.find({kRoot, counting(40)}).n_tokens(), 32u);
  EXPECT_EQ(cache.find({kRoot, counting(40)}).report().miss, MissReason::kNoSnapshot);
}

TEST_F(OpenPages, a_pin_inside_the_last_page_keeps_its_open_page) {
  for (const uint32_t n_pinned : {10u, 40u}) {
    KvCache cache = make(20);
    PageTable table = cache.make_table(kRoot);
    table.owner.pins = {{.n_tokens = n_pinned, .ttl = std::chrono::minutes(5)}};
    ASSERT_TRUE(cache.grow(table, 40));
    cache.close(table, counting(40));
    for (int i = 1; i < 5; ++i) run(cache, counting(100, 1000 * i));
    EXPECT_EQ(cache.find({kRoot, counting(40)}).n_tokens(), n_pinned == 40 ? 40u : 32u);
  }
}

TEST_F(OpenPages, with_windows_the_pages_are_found_that_the_end_of_a_page_sees) {
  KvCache cache = make(60, 2, {0, 40});
  run(cache, counting(200));
  auto tokens = counting(200);
  tokens[170] = 9999;
  EXPECT_EQ(run(cache, tokens), 160u);
}

TEST_F(OpenPages, a_slot_is_had_as_long_as_the_table_has_pages) {
  KvCache cache = make(20, 2);
  PageTable a = cache.make_table(kRoot), b = cache.make_table(kRoot), c = cache.make_table(kRoot);
  ASSERT_TRUE(cache.grow(a, 40));
  ASSERT_TRUE(cache.grow(b, 1));
  ASSERT_NE(a.open_pages(), nullptr);
  ASSERT_NE(b.open_pages(), nullptr);
  EXPECT_GE(std::abs(a.open_pages() - b.open_pages()), std::ptrdiff_t{2 * kOpenBytes});
  EXPECT_FALSE(cache.grow(c, 1)) << "all slots are in use";
  EXPECT_EQ(c.n_pages(), 0u);
  EXPECT_EQ(c.open_pages(), nullptr);
  std::byte* const had = a.open_pages();
  ASSERT_TRUE(cache.grow(a, 100));
  EXPECT_EQ(a.open_pages(), had);
  cache.close(a, counting(40));
  EXPECT_EQ(a.open_pages(), nullptr);
  EXPECT_TRUE(cache.grow(c, 1));
  EXPECT_EQ(c.open_pages(), had);
  b.clear();
  c.clear();
  EXPECT_EQ(cache.snapshots().open_slots().n_free(), 2u);
}

TEST_F(OpenPages, an_open_that_fails_takes_no_slot) {
  KvCache cache = make(4, 1);
  PageTable table = cache.make_table(kRoot);
  const auto tokens = counting(200);
  EXPECT_FALSE(open_prefix(cache, table, {kRoot, tokens}, tokens.size()).has_value());
  EXPECT_EQ(cache.snapshots().open_slots().n_free(), 1u);
}

TEST_F(OpenPages, the_filling_page_is_copied_with_its_open_page) {
  for (const uint32_t page : {0u, 1u, 4u}) {
    KvCache cache = make(40);
    PageTable from = cache.make_table(kRoot), to = cache.make_table(kRoot);
    const auto tokens = counting(page * 32 + 20);
    ASSERT_TRUE(cache.grow(from, tokens.size()));
    cache.seal(from, tokens);
    ASSERT_TRUE(cache.grow(to, tokens.size()));
    EXPECT_EQ(cache.adopt(to, tokens), page * 32);
    std::memset(from.addresses()[page], 7, kPageBytes);
    std::memset(from.open_pages(), 1, 2 * kOpenBytes);
    std::memset(from.open_pages() + page % 2 * kOpenBytes, 8, kOpenBytes);
    std::memset(to.open_pages(), 3, 2 * kOpenBytes);
    ASSERT_TRUE(cache.copy_partial_page(to, from, tokens.size(), tokens.size()));
    EXPECT_EQ(to.addresses()[page][0], std::byte{7});
    for (size_t i = 0; i < kOpenBytes; ++i) {
      ASSERT_EQ(to.open_pages()[page % 2 * kOpenBytes + i], std::byte{8});
      ASSERT_EQ(to.open_pages()[(page + 1) % 2 * kOpenBytes + i], std::byte{3});
    }
  }
}

// A sequence whose page could not be sealed still advances and overwrites its open page.
TEST_F(OpenPages, no_partial_page_is_copied_from_a_later_position) {
  KvCache cache = make(40);
  PageTable from = cache.make_table(kRoot), to = cache.make_table(kRoot);
  ASSERT_TRUE(cache.grow(from, 120));
  ASSERT_TRUE(cache.grow(to, 20));
  EXPECT_TRUE(cache.copy_partial_page(to, from, 32, 32));
  EXPECT_FALSE(cache.copy_partial_page(to, from, 33, 33));
}

TEST_F(OpenPages, a_report_says_where_and_why_a_prefix_ended) {
  KvCache cache = make(40);
  EXPECT_EQ(report(cache, counting(100)).miss, MissReason::kNeverSeen);
  run(cache, counting(100));

  for (const uint32_t n : {32u, 64u, 96u, 97u, 100u}) {
    const CacheReport all = report(cache, counting(n));
    EXPECT_EQ(all.miss, MissReason::kNone) << n;
    EXPECT_EQ(all.ram_tokens, n) << n;
    EXPECT_FALSE(all.position.has_value());
  }
  // Tokens at the beginning of a full page are computed again.
  for (const uint32_t n : {1u, 31u, 63u, 70u}) {
    const CacheReport part = report(cache, counting(n));
    EXPECT_EQ(part.miss, MissReason::kNoSnapshot) << n;
    EXPECT_EQ(part.ram_tokens, n / 32 * 32) << n;
    EXPECT_EQ(part.position, n / 32 * 32) << n;
  }
  for (const uint32_t n : {120u, 128u, 140u}) {
    EXPECT_EQ(report(cache, counting(n)).miss, MissReason::kTooShort);
    EXPECT_EQ(report(cache, counting(n)).position, 100u);
  }

  auto other = counting(100);
  other[75] = 1234;
  const CacheReport diverged = report(cache, other);
  EXPECT_EQ(diverged.miss, MissReason::kDiverged);
  EXPECT_EQ(diverged.ram_tokens, 64u);
  EXPECT_EQ(diverged.position, 75u) << "where they diverge, although the page begins at 64";
  EXPECT_EQ(diverged.expected, 75u);
  EXPECT_EQ(diverged.got, 1234u);

  other = counting(100);
  other[5] = 1234;
  EXPECT_EQ(report(cache, other).miss, MissReason::kDiverged);
  EXPECT_EQ(report(cache, other).ram_tokens, 0u);
  EXPECT_EQ(report(cache, other).position, 5u);
}

TEST_F(OpenPages, evicted_pages_are_reported_as_evicted) {
  KvCache cache = make(6);
  run(cache, counting(160));
  run(cache, counting(192, 1000));
  const CacheReport gone = report(cache, counting(160));
  EXPECT_EQ(gone.miss, MissReason::kEvicted);
  EXPECT_EQ(gone.position, gone.ram_tokens);
}

// Short sequences open, grow and end in random order. The cached prefix is the longest common
// prefix, in full pages and inside last pages, and every slot and page is released.
TEST_F(OpenPages, random_use_finds_what_was_kept_and_loses_nothing) {
  std::mt19937 random(5);
  KvCache cache = make(6000, 4);
  struct Live {
    std::vector<TokenId> tokens;
    PageTable table;
  };
  std::vector<Live> live;
  std::vector<std::vector<TokenId>> ended;
  for (int i = 0; i < 600; ++i) {
    if (live.size() == 4 || (!live.empty() && random() % 3 == 0)) {
      Live& last = live.back();
      cache.close(last.table, last.tokens);
      ended.push_back(std::move(last.tokens));
      live.pop_back();
      continue;
    }
    std::vector<TokenId> tokens(1 + random() % 150);
    for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = t % 40 < 37 ? 1 : random() % 2;
    uint32_t longest = 0;
    for (const auto& other : ended) {
      const size_t n = std::min(other.size(), tokens.size());
      const auto at = std::mismatch(tokens.begin(), tokens.begin() + n, other.begin()).first;
      const auto n_shared = static_cast<uint32_t>(at - tokens.begin());
      const bool is_in_last = n_shared > other.size() / 32 * 32;
      longest = std::max(longest, is_in_last ? n_shared : n_shared / 32 * 32);
    }
    live.push_back({tokens, cache.make_table(kRoot)});
    const auto found = open_prefix(cache, live.back().table, {kRoot, tokens}, tokens.size());
    ASSERT_EQ(found, longest);
    EXPECT_EQ(cache.snapshots().open_slots().n_free(), 4 - live.size());
  }
  for (Live& last : live) cache.close(last.table, last.tokens);
  EXPECT_EQ(cache.snapshots().open_slots().n_free(), 4u);
  EXPECT_EQ(cache.counts().leased + cache.counts().sealed, 0u);
}

}  // namespace
}  // namespace kvik
