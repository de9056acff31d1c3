#include "tier/save_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvik {
namespace {

PageKey key_of(int number) {
  PageKey key;
  key.bytes[0] = std::byte(number);
  return key;
}

SavablePage page(uint32_t id, int parent, int key, int used_s) {
  return {.id = PageId{id},
          .parent = key_of(parent),
          .key = key_of(key),
          .last_used = TimePoint(std::chrono::seconds(used_s))};
}

std::vector<uint32_t> order_of(const std::vector<SavablePage>& pages) {
  std::vector<uint32_t> ids;
  for (const PageId id : save_order(pages)) ids.push_back(static_cast<uint32_t>(id));
  return ids;
}

TEST(SaveOrder, TheMostRecentlyUsedPrefixComesLastWithItsParentsFirst) {
  // Two prefixes, 1-2 and 1-3-4. The parent was leased before its newest child.
  EXPECT_EQ(order_of({page(0, 0, 1, 5), page(1, 1, 2, 6), page(2, 1, 3, 7), page(3, 3, 4, 9)}),
            (std::vector<uint32_t>{1, 0, 2, 3}));
}

TEST(SaveOrder, PagesOfAllLayerGroupsOfANodeStayTogether) {
  EXPECT_EQ(order_of({page(0, 0, 1, 5), page(1, 0, 1, 5), page(2, 1, 2, 5), page(3, 1, 2, 8)}),
            (std::vector<uint32_t>{0, 1, 2, 3}));
}

TEST(SaveOrder, APageWhoseParentIsNotInMemoryIsSavedToo) {
  EXPECT_EQ(order_of({page(0, 8, 9, 1), page(1, 0, 1, 2)}), (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(order_of({}).empty());
}

}  // namespace
}  // namespace kvik
