#include "kv/group_rule.h"

#include <gtest/gtest.h>

#include <set>

namespace kvik {
namespace {

// Returns the pages of the tokens that the token after n_tokens attends to, checked one by one.
std::set<uint64_t> pages_looked_at(uint32_t window, uint64_t n_tokens) {
  std::set<uint64_t> pages;
  for (uint64_t t = 0; t < n_tokens; ++t) {
    if (window == 0 || t + window > n_tokens) pages.insert(t / kPageTokens);
  }
  return pages;
}

TEST(GroupRule, needs_the_pages_that_the_next_token_looks_at_and_no_page_before_them) {
  for (const uint32_t window : {0u, 1u, 2u, 31u, 32u, 33u, 64u, 100u}) {
    const GroupRule rule = GroupRule::of_window(window);
    for (uint64_t n = 0; n < 300; ++n) {
      const auto pages = pages_looked_at(window, n);
      const uint64_t first = rule.first_page_needed(n);
      if (!pages.empty()) {
        ASSERT_EQ(first, *pages.begin()) << window << " " << n;
      }
      // While the token after n is computed, its own page is there, too.
      ASSERT_LE(pages_for(n + 1) - first, rule.pages_at_once(n + 1)) << window << " " << n;
    }
  }
}

TEST(GroupRule, resumes_where_all_needed_pages_are_there) {
  for (const uint32_t window : {0u, 33u, 64u}) {
    const GroupRule rule = GroupRule::of_window(window);
    EXPECT_EQ(rule.needs_all(), window == 0);
    for (uint64_t n = 0; n < 300; ++n) {
      const auto pages = pages_looked_at(window, n);
      EXPECT_TRUE(rule.can_resume(n, [&](uint64_t i) { return pages.contains(i); }));
      for (const uint64_t lost : pages) {
        if (lost >= n / kPageTokens) continue;  // not a whole page
        // A group that needs all pages cannot have any after a missing one.
        const auto has = [&](uint64_t i) { return window == 0 ? i < lost : i != lost; };
        EXPECT_FALSE(rule.can_resume(n, has)) << window << " " << n << " " << lost;
      }
    }
  }
}

TEST(GroupRule, without_a_window_all_pages_are_needed_and_none_is_given_back) {
  const GroupRule rule;
  EXPECT_EQ(rule.first_page_needed(1'000'000), 0u);
  EXPECT_EQ(rule.pages_at_once(1'000'000), 31250u);
  EXPECT_EQ(GroupRule::of_window(64).pages_at_once(1'000'000), 3u);
}

}  // namespace
}  // namespace kvik
