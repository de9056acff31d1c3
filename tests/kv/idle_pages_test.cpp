#include "kv/idle_pages.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

TimePoint second(int n) { return TimePoint{} + std::chrono::seconds(n); }

TEST(IdlePages, counts_pages_whose_last_use_was_earlier) {
  IdlePages idle(4);
  idle.note_use(PageId{0}, second(1));
  idle.note_use(PageId{1}, second(5));
  idle.note_use(PageId{2}, second(9));
  EXPECT_EQ(idle.n_unused_since(second(1)), 0u);
  EXPECT_EQ(idle.n_unused_since(second(5)), 1u);
  EXPECT_EQ(idle.n_unused_since(second(10)), 3u);
}

TEST(IdlePages, a_later_use_replaces_the_earlier_one) {
  IdlePages idle(4);
  idle.note_use(PageId{0}, second(1));
  idle.note_use(PageId{0}, second(8));
  EXPECT_EQ(idle.n_unused_since(second(8)), 0u);
  EXPECT_EQ(idle.n_unused_since(second(9)), 1u);
}

TEST(IdlePages, a_removed_page_is_not_counted) {
  IdlePages idle(4);
  idle.note_use(PageId{0}, second(1));
  idle.remove(PageId{0});
  idle.remove(PageId{1});
  EXPECT_FALSE(idle.holds(PageId{0}));
  EXPECT_EQ(idle.n_unused_since(second(9)), 0u);
}

}  // namespace
}  // namespace kvik
