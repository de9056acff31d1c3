// Tests the part of a page that describes its newest token (KvLayout::newest_token).
#include <gtest/gtest.h>

#include <vector>

#include "kv/kv_cache.h"
#include "kv/open_prefix.h"
#include "kv/plain_memory.h"

namespace kvik {
namespace {

const PageKey kRoot = root_key("test", "");
constexpr size_t kOffset = 48;
constexpr std::byte kMark{7};

std::vector<TokenId> counting(uint32_t n) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(i);
  return tokens;
}

class NewestToken : public ::testing::Test {
 protected:
  NewestToken() {
    KvLayout layout(64);
    layout.newest_token = {.group = 0, .offset = kOffset, .n_bytes = 16};
    cache_.emplace(memory_, 16 * 64, layout, clock_);
  }

  // Returns the table of a sequence that computed these tokens, with a mark in each page.
  PageTable computed(uint32_t n) {
    PageTable table = cache_->make_table(kRoot);
    EXPECT_TRUE(cache_->grow(table, n));
    for (std::byte* page : table.addresses()) page[kOffset] = kMark;
    return table;
  }
  // Returns what the page of the last token has after the first n tokens were found.
  std::byte found(uint32_t n) {
    PageTable table;
    EXPECT_EQ(open_prefix(*cache_, table, {kRoot, counting(n)}, n + 1), n);
    return table.addresses()[(n - 1) / kPageTokens][kOffset];
  }

  PlainMemory memory_;
  SteadyClock clock_;
  std::optional<KvCache> cache_;
};

TEST_F(NewestToken, is_found_at_the_end_of_a_page_and_of_a_sequence) {
  PageTable table = computed(40);
  cache_->close(table, counting(40));
  EXPECT_EQ(found(32), kMark);
  EXPECT_EQ(found(40), kMark);
}

TEST_F(NewestToken, is_unknown_where_a_prefix_ends_before_it) {
  PageTable table = computed(40);
  cache_->close(table, counting(40));
  EXPECT_EQ(found(39), std::byte{0});
  EXPECT_EQ(found(10), std::byte{0});
}

TEST_F(NewestToken, is_copied_with_a_partly_filled_page_of_the_same_tokens) {
  const PageTable from = computed(20);
  for (const uint32_t n_common : {19u, 20u}) {
    PageTable to = cache_->make_table(kRoot);
    ASSERT_TRUE(cache_->grow(to, 20));
    ASSERT_TRUE(cache_->copy_partial_page(to, from, 20, n_common));
    EXPECT_EQ(to.addresses()[0][kOffset], n_common == 20 ? kMark : std::byte{0});
  }
  PageTable to = cache_->make_table(kRoot);
  ASSERT_TRUE(cache_->grow(to, 32));
  ASSERT_TRUE(cache_->copy_partial_page(to, computed(33), 33, 32));
  EXPECT_EQ(to.addresses()[0][kOffset], kMark) << "a full page has that of its last token";
}

}  // namespace
}  // namespace kvik
