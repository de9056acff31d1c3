#include "kv/index/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tensor/kv_type.h"

namespace kvik {
namespace {

using Tokens = std::vector<TokenId>;

// Returns n ascending tokens, starting with `first`.
Tokens counting(uint32_t n, TokenId first) {
  Tokens tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const PageKey kRoot = root_key("test", "");

const TimePoint kNow{};

// An index of one group without a window, in which no page is leased.
struct PagesOfOneGroup : PrefixIndex {
  explicit PagesOfOneGroup(uint32_t n_pages = 1000, Resume resume = Resume::kAnywhere)
      : PrefixIndex(n_pages, {GroupRule()}, child_key, resume) {}

  // Inserts a page and returns the page that holds the tokens now.
  std::optional<PageId> insert(const PageKey& parent, const Tokens& tokens, PageId page) {
    const std::vector<std::optional<PageId>> pages = {page};
    const PrefixNode* node = PrefixIndex::insert(
        {.root = kRoot, .parent = parent, .tokens = tokens, .pages = pages, .tenant = 0});
    if (!node) return std::nullopt;
    if (node->pages[0] == page) set_unused(page);
    return node->pages[0];
  }
  struct Found {
    std::vector<PageId> whole;
    std::optional<PageId> head;
    uint32_t n_head = 0;
  };
  Found find(const PageKey& root, const Tokens& tokens) const {
    const Match match = PrefixIndex::find(root, tokens, {});
    Found found;
    const PrefixNode* node = match.last;
    for (uint32_t i = 0; i < match.n_whole; ++i, node = node->parent) {
      found.whole.insert(found.whole.begin(), *node->pages[0]);
    }
    if (match.head) found.head = match.head->pages[0];
    found.n_head = match.n_head;
    return found;
  }
  std::optional<PageId> victim() { return PrefixIndex::victim(kNow); }
};

TEST(PrefixIndex, an_empty_one_finds_nothing) {
  const PagesOfOneGroup index;
  const auto match = index.find(kRoot, counting(100, 0));
  EXPECT_TRUE(match.whole.empty());
  EXPECT_FALSE(match.head.has_value());
}

TEST(PrefixIndex, finds_whole_pages_and_then_the_head_of_one) {
  PagesOfOneGroup index;
  const Tokens first = counting(kPageTokens, 0);
  const Tokens second = counting(kPageTokens, 100);
  index.insert(kRoot, first, PageId{7});
  index.insert(child_key(kRoot, first), second, PageId{3});
  const auto all = index.find(kRoot, first + second + counting(5, 900));
  EXPECT_EQ(all.whole, (std::vector{PageId{7}, PageId{3}}));
  EXPECT_FALSE(all.head.has_value());

  const auto part = index.find(kRoot, first + counting(10, 100) + counting(50, 900));
  EXPECT_EQ(part.whole, std::vector{PageId{7}});
  EXPECT_EQ(part.head, PageId{3});
  EXPECT_EQ(part.n_head, 10u);
}

TEST(PrefixIndex, the_child_with_the_longest_match_serves) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(4, 0) + counting(28, 500), PageId{1});
  index.insert(kRoot, counting(20, 0) + counting(12, 600), PageId{2});
  index.insert(kRoot, counting(9, 0) + counting(3, 700), PageId{3});
  const auto match = index.find(kRoot, counting(31, 0));
  EXPECT_EQ(match.head, PageId{2});
  EXPECT_EQ(match.n_head, 20u);
}

TEST(PrefixIndex, pages_of_another_root_are_never_found) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(kPageTokens, 0), PageId{1});
  const auto match = index.find(root_key("test", "salt"), counting(64, 0));
  EXPECT_TRUE(match.whole.empty());
  EXPECT_FALSE(match.head.has_value());
}

TEST(PrefixIndex, what_is_known_already_is_not_inserted_again) {
  PagesOfOneGroup index;
  const Tokens tokens = counting(kPageTokens, 0);
  EXPECT_EQ(index.insert(kRoot, tokens, PageId{1}), PageId{1});
  EXPECT_EQ(index.insert(kRoot, tokens, PageId{2}), PageId{1});
  EXPECT_EQ(index.insert(kRoot, counting(9, 0), PageId{3}), PageId{1}) << "the head of it";
  EXPECT_EQ(index.n_nodes(), 1u);
}

TEST(PrefixIndex, nothing_is_known_below_a_page_that_is_not) {
  PagesOfOneGroup index;
  const PageKey unknown = child_key(kRoot, counting(kPageTokens, 0));
  EXPECT_EQ(index.insert(unknown, counting(kPageTokens, 50), PageId{1}), std::nullopt);
  EXPECT_EQ(index.n_nodes(), 0u);
}

TEST(PrefixIndex, a_tail_that_another_page_continues_goes_first) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(kPageTokens, 500), PageId{1});
  index.insert(kRoot, counting(10, 0), PageId{2});
  index.touch(PageId{2});
  index.insert(kRoot, counting(20, 0), PageId{3});
  EXPECT_EQ(index.victim(), PageId{2});
}

TEST(PrefixIndex, gives_up_leaves_before_the_pages_above_them) {
  PagesOfOneGroup index;
  const Tokens first = counting(kPageTokens, 0);
  index.insert(kRoot, first, PageId{1});
  index.insert(child_key(kRoot, first), counting(kPageTokens, 50), PageId{2});
  EXPECT_EQ(index.victim(), PageId{2});
  index.erase(PageId{2});
  EXPECT_EQ(index.victim(), PageId{1});
}

TEST(PrefixIndex, gives_up_the_leaf_that_was_used_longest_ago) {
  PagesOfOneGroup index;
  for (uint32_t i = 0; i < 3; ++i) index.insert(kRoot, counting(kPageTokens, 100 * i), PageId{i});
  for (const uint32_t i : {1u, 0u, 2u}) index.touch(PageId{i});
  EXPECT_EQ(index.victim(), PageId{1});
}

TEST(PrefixIndex, a_page_of_a_waiting_request_is_evicted_later) {
  PagesOfOneGroup index;
  for (uint32_t i = 0; i < 3; ++i) index.insert(kRoot, counting(kPageTokens, 100 * i), PageId{i});
  index.touch(PageId{1});
  index.note_awaited(PageId{0});
  EXPECT_EQ(index.victim(), PageId{2});
  index.erase(PageId{2});
  EXPECT_EQ(index.victim(), PageId{1});
}

TEST(PrefixIndex, a_page_that_was_found_often_goes_when_others_were_used_later) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(kPageTokens, 0), PageId{0});
  for (int i = 0; i < 5; ++i) index.touch(PageId{0});
  index.insert(kRoot, counting(kPageTokens, 100), PageId{1});
  EXPECT_EQ(index.victim(), PageId{0});
}

// Inserts pages with these numbers below one another. Returns the key of the last one.
PageKey insert_chain(PagesOfOneGroup& index, PageKey parent, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n; ++i) {
    const Tokens tokens = counting(kPageTokens, 100 * i);
    index.insert(parent, tokens, PageId{i});
    parent = child_key(parent, tokens);
  }
  return parent;
}

TEST(PrefixIndex, a_branch_that_a_later_one_supersedes_goes_first) {
  PagesOfOneGroup index;
  insert_chain(index, kRoot, 100, 1);
  const PageKey trunk = insert_chain(index, kRoot, 0, 16);
  insert_chain(index, trunk, 20, 2);
  EXPECT_EQ(index.victim(), PageId{100});
  insert_chain(index, trunk, 30, 3);
  EXPECT_EQ(index.victim(), PageId{21});
  index.erase(PageId{21});
  EXPECT_EQ(index.victim(), PageId{20});
  index.erase(PageId{20});
  EXPECT_EQ(index.victim(), PageId{100});
}

TEST(PrefixIndex, long_branches_and_those_in_use_are_not_superseded) {
  PagesOfOneGroup index;
  insert_chain(index, kRoot, 100, 1);
  const PageKey trunk = insert_chain(index, kRoot, 0, 16);
  insert_chain(index, trunk, 20, 3);
  insert_chain(index, trunk, 30, 1);
  EXPECT_EQ(index.victim(), PageId{100}) << "three pages after 16";

  const PageKey other = insert_chain(index, kRoot, 40, 16);
  insert_chain(index, other, 60, 1);
  index.set_in_use(PageId{60});
  insert_chain(index, other, 70, 1);
  index.set_unused(PageId{60});
  EXPECT_EQ(index.victim(), PageId{100});
}

TEST(PrefixIndex, snapshots_found_twice_do_not_push_out_new_ones_for_ever) {
  PagesOfOneGroup index(20, PrefixIndex::Resume::kAtSnapshots);
  for (uint32_t i = 0; i < 20; i += 4) {
    const Tokens tokens = counting(kPageTokens, 100 * i);
    index.insert(kRoot, tokens, PageId{i});
    const std::vector<PageId> snapshot = {PageId{i + 1}, PageId{i + 2}, PageId{i + 3}};
    index.touch(PageId{i});
    const bool is_last = i == 16;
    ASSERT_TRUE(index.attach(
        {.root = kRoot, .parent = child_key(kRoot, tokens), .tokens = {}, .pages = {}}, snapshot,
        SnapshotKind::kEnd, is_last ? EvictionRank::kNew : EvictionRank::kFound));
    index.set_unused(snapshot.front());
  }
  EXPECT_EQ(index.victim(), PageId{1}) << "17 of 20 were found twice";
  index.erase(PageId{1});
  EXPECT_EQ(index.victim(), PageId{0}) << "it has no snapshot any more";
  index.erase(PageId{0});
  EXPECT_EQ(index.victim(), PageId{17}) << "three quarters may stay";
}

TEST(PrefixIndex, passes_over_pages_in_use) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(kPageTokens, 0), PageId{0});
  index.insert(kRoot, counting(kPageTokens, 100), PageId{1});
  index.set_in_use(PageId{0});
  EXPECT_EQ(index.victim(), PageId{1});
  index.set_in_use(PageId{1});
  EXPECT_EQ(index.victim(), std::nullopt);
  index.set_unused(PageId{0});
  EXPECT_EQ(index.victim(), PageId{0});
}

TEST(PrefixIndex, a_pinned_page_outlives_all_others_until_its_time_is_over) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(kPageTokens, 0), PageId{0});
  index.insert(kRoot, counting(kPageTokens, 100), PageId{1});
  index.touch(PageId{1});
  index.pin(PageId{0}, kNow + std::chrono::seconds(5), 0);
  EXPECT_EQ(index.victim(), PageId{1});
  const auto late = kNow + std::chrono::seconds(5);
  EXPECT_EQ(static_cast<PrefixIndex&>(index).victim(late), PageId{0});
}

TEST(PrefixIndex, a_pinned_page_goes_where_nothing_else_is_left) {
  PagesOfOneGroup index;
  index.insert(kRoot, counting(kPageTokens, 0), PageId{0});
  index.pin(PageId{0}, kNow + std::chrono::hours(1), 0);
  EXPECT_EQ(index.victim(), PageId{0});
  index.erase(PageId{0});
  EXPECT_EQ(index.victim(), std::nullopt);
}

// A simple model of the index: each page with all tokens from the beginning to its end.
struct PlainIndex {
  std::map<PageId, Tokens> pages;

  // Returns the largest number of tokens that are covered by full pages and the first tokens of one
  // more page.
  uint32_t longest(const Tokens& tokens) const {
    uint32_t n_whole = 0;
    for (bool grew = true; grew;) {
      grew = false;
      for (const auto& [id, held] : pages) {
        if (held.size() != n_whole + kPageTokens || held.size() > tokens.size()) continue;
        if (!std::equal(held.begin(), held.end(), tokens.begin())) continue;
        n_whole += kPageTokens;
        grew = true;
        break;
      }
    }
    uint32_t best = n_whole;
    for (const auto& [id, held] : pages) {
      if (held.size() <= n_whole || held.size() > n_whole + kPageTokens) continue;
      const auto [end, ignored] = std::ranges::mismatch(held, tokens);
      const auto n = static_cast<uint32_t>(end - held.begin());
      if (n >= n_whole) best = std::max(best, n);
    }
    return best;
  }

  bool is_leaf(PageId id) const {
    const Tokens& own = pages.at(id);
    return std::ranges::none_of(pages, [&](const auto& other) {
      return other.second.size() > own.size() && own.size() % kPageTokens == 0 &&
             other.second.size() <= own.size() + kPageTokens &&
             std::equal(own.begin(), own.end(), other.second.begin());
    });
  }
};

TEST(PrefixIndex, random_operations_agree_with_a_plain_model_at_every_step) {
  for (uint32_t seed = 0; seed < 15; ++seed) {
    std::mt19937 random(seed);
    PagesOfOneGroup index;
    PlainIndex plain;
    uint32_t next_page = 0;
    // Few different tokens, so that prefixes are often shared, completely or in part.
    const auto random_tokens = [&] {
      Tokens tokens;
      const uint32_t n = 1 + random() % 130;
      while (tokens.size() < n) tokens.push_back(random() % 8 == 0 ? random() % 2 : 0);
      return tokens;
    };
    for (int step = 0; step < 400; ++step) {
      const Tokens tokens = random_tokens();
      const auto match = index.find(kRoot, tokens);
      const auto n_found = static_cast<uint32_t>(match.whole.size()) * kPageTokens + match.n_head;
      ASSERT_EQ(n_found, plain.longest(tokens)) << "seed " << seed << " step " << step;
      if (random() % 3 != 0) {  // a sequence of these tokens ended: its next page is added
        const size_t begin = match.whole.size() * kPageTokens;
        const size_t n = std::min<size_t>(kPageTokens, tokens.size() - begin);
        if (n == 0) continue;
        PageKey parent = kRoot;
        for (size_t i = 0; i < begin; i += kPageTokens) {
          parent = child_key(parent, std::span(tokens).subspan(i, kPageTokens));
        }
        const PageId page{next_page++};
        const auto at = tokens.begin() + static_cast<ptrdiff_t>(begin);
        const auto end = at + static_cast<ptrdiff_t>(n);
        const auto holder = index.insert(parent, Tokens(at, end), page);
        ASSERT_EQ(holder != page, match.n_head == n);
        if (holder == page) plain.pages[page] = Tokens(tokens.begin(), end);
      } else if (const auto victim = index.victim()) {
        ASSERT_TRUE(plain.is_leaf(*victim));
        index.erase(*victim);
        plain.pages.erase(*victim);
      }
      ASSERT_EQ(index.n_nodes(), plain.pages.size());
    }
    while (const auto victim = index.victim()) index.erase(*victim);
    EXPECT_EQ(index.n_nodes(), 0u) << "a page can never be evicted";
  }
}

}  // namespace
}  // namespace kvik
