#include "tier/wanted_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace kvik {
namespace {

struct LoadOf {
  std::shared_ptr<std::atomic<uint64_t>> front = std::make_shared<std::atomic<uint64_t>>(0);
  TierLoad load;

  explicit LoadOf(uint32_t n_pages, uint32_t first = 0) {
    load.first = first;
    load.is_done.resize(n_pages);
    load.absent = n_pages;
    load.front = front;
    *front = first;
  }

  // Reads to the end from a tier that has these pages; returns them in the order of reading.
  std::vector<uint32_t> read(const std::set<uint32_t>& stored) {
    std::vector<uint32_t> got;
    while (const auto page = load.next()) {
      EXPECT_FALSE(load.is_done[*page]);
      if (stored.contains(*page)) got.push_back(*page);
      load.note(*page, !stored.contains(*page));
    }
    return got;
  }
};

std::set<uint32_t> first(uint32_t n) {
  std::set<uint32_t> pages;
  for (uint32_t i = 0; i < n; ++i) pages.insert(i);
  return pages;
}

TEST(TierLoad, reads_each_page_that_the_tier_has_once) {
  for (const uint32_t n_pages : {0u, 1u, 2u, 7u, 100u}) {
    for (uint32_t n = 0; n <= n_pages; ++n) {
      const auto got = LoadOf(n_pages).read(first(n));
      EXPECT_EQ(got.size(), n);
      EXPECT_EQ(std::set<uint32_t>(got.begin(), got.end()), first(n));
    }
  }
}

TEST(TierLoad, reads_from_the_end_after_few_probes) {
  const auto got = LoadOf(128).read(first(100));
  const std::vector<uint32_t> tail(got.end() - 80, got.end());
  EXPECT_TRUE(std::ranges::is_sorted(tail, std::greater<>()));
  EXPECT_EQ(tail.back(), 0u);
}

TEST(TierLoad, skips_pages_that_are_missing_in_the_middle) {
  auto stored = first(40);
  for (const uint32_t page : {3u, 17u, 35u}) stored.erase(page);
  EXPECT_GE(LoadOf(64).read(stored).size(), 17u);
}

TEST(TierLoad, does_not_read_what_has_been_computed) {
  LoadOf of(50, 10);
  *of.front = 10 + 30;
  const auto got = of.read(first(45));
  EXPECT_EQ(std::set<uint32_t>(got.begin(), got.end()).size(), 15u);
  for (const uint32_t page : got) EXPECT_GE(page, 30u);
  LoadOf passed(50, 10);
  *passed.front = 100;
  EXPECT_TRUE(passed.read(first(45)).empty());
}

}  // namespace
}  // namespace kvik
