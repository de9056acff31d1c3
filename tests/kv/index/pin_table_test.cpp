#include "kv/index/pin_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace kvik {
namespace {

constexpr TimePoint kBegin{};
TimePoint at_s(int s) { return kBegin + std::chrono::seconds(s); }

// A PinTable whose changes are added up to the pins that count, as its user does.
struct Book : PinTable {
  explicit Book(uint32_t n_pages, uint32_t n_tenants = 1) : PinTable(n_pages) {
    set_tenants(n_tenants);
  }
  const std::map<uint32_t, int>& counting() {
    for (const auto& [page, n] : take_changes()) {
      int& pins = n_pins_[static_cast<uint32_t>(page)];
      pins += n;
      EXPECT_GE(pins, 0);
      if (pins == 0) n_pins_.erase(static_cast<uint32_t>(page));
    }
    return n_pins_;
  }

 private:
  std::map<uint32_t, int> n_pins_;
};

TEST(PinTable, alone_a_tenant_pins_all_there_is) {
  Book book(10);
  for (uint32_t p = 0; p < 10; ++p) book.pin(PageId{p}, p, 1, at_s(5));
  EXPECT_EQ(book.counting().size(), 10u);
}

TEST(PinTable, one_of_several_tenants_pins_at_most_half) {
  Book book(60, 8);
  for (uint32_t p = 0; p < 60; ++p) book.pin(PageId{p}, p, 1, at_s(5));
  EXPECT_EQ(book.counting().size(), 30u);
  EXPECT_TRUE(book.counting().contains(29)) << "those nearest to the beginning";
}

TEST(PinTable, two_pinning_tenants_get_a_third_each) {
  Book book(60, 8);
  for (uint32_t p = 0; p < 30; ++p) book.pin(PageId{p}, p, 1, at_s(5));
  for (uint32_t p = 30; p < 60; ++p) book.pin(PageId{p}, p - 30, 2, at_s(9));
  EXPECT_EQ(book.counting().size(), 40u);
  EXPECT_TRUE(book.counting().contains(19) && !book.counting().contains(20));
  EXPECT_TRUE(book.counting().contains(49) && !book.counting().contains(50));
  book.expire(at_s(5));
  EXPECT_EQ(book.counting().size(), 30u) << "all of the one whose are left";
}

TEST(PinTable, all_pinning_tenants_get_equal_shares) {
  Book book(60, 2);
  for (uint32_t p = 0; p < 60; ++p) book.pin(PageId{p}, p, 1 + p % 2, at_s(5));
  EXPECT_EQ(book.counting().size(), 60u);
}

TEST(PinTable, a_later_end_counts_and_an_earlier_one_does_not) {
  Book book(10);
  book.pin(PageId{3}, 0, 1, at_s(5));
  book.pin(PageId{3}, 0, 1, at_s(9));
  book.pin(PageId{3}, 0, 1, at_s(2));
  book.expire(at_s(8));
  EXPECT_TRUE(book.counting().contains(3));
  book.expire(at_s(9));
  EXPECT_FALSE(book.counting().contains(3));
}

// Computes the pins that count from all pins.
std::map<uint32_t, int> plain(
    const std::map<std::pair<uint64_t, uint32_t>, std::pair<uint32_t, TimePoint>>& pins,
    uint32_t n_pages, uint32_t n_tenants) {
  std::map<uint64_t, std::vector<std::pair<uint32_t, uint32_t>>> by_tenant;
  for (const auto& [who, pin] : pins) by_tenant[who.first].emplace_back(pin.first, who.second);
  const size_t share = n_pages / std::min<size_t>(n_tenants, by_tenant.size() + 1);
  std::map<uint32_t, int> counting;
  for (auto& [tenant, pages] : by_tenant) {
    std::ranges::sort(pages);
    for (size_t i = 0; i < std::min(share, pages.size()); ++i) ++counting[pages[i].second];
  }
  return counting;
}

TEST(PinTable, random_pins_count_as_a_plain_model_says) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const uint32_t n_pages = 5 + random() % 40;
    const uint32_t n_tenants = 1 + random() % 6;
    Book book(n_pages, n_tenants);
    std::map<std::pair<uint64_t, uint32_t>, std::pair<uint32_t, TimePoint>> pins;
    int now = 0;
    for (int step = 0; step < 1000; ++step) {
      const uint32_t page = random() % n_pages;
      if (random() % 8 == 0) {
        book.forget(PageId{page});
        std::erase_if(pins, [&](const auto& pin) { return pin.first.second == page; });
      } else if (random() % 8 == 0) {
        book.expire(at_s(now += 3));
        std::erase_if(pins, [&](const auto& pin) { return pin.second.second <= at_s(now); });
      } else {
        const uint64_t tenant = random() % n_tenants;
        const TimePoint until = at_s(now + 1 + static_cast<int>(random() % 50));
        const uint32_t depth = page / 3;
        book.pin(PageId{page}, depth, tenant, until);
        auto& pin = pins[{tenant, page}];
        pin = {depth, std::max(pin.second, until)};
      }
      ASSERT_EQ(book.counting(), plain(pins, n_pages, n_tenants)) << seed << " " << step;
    }
  }
}

}  // namespace
}  // namespace kvik
