#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace kvik {
namespace {

TEST(PagePool, a_taken_page_comes_back_when_its_lease_ends) {
  PagePool pool(2);
  {
    const auto lease = pool.take();
    ASSERT_TRUE(lease.has_value());
    EXPECT_EQ(pool.counts().leased, 1u);
    EXPECT_EQ(pool.counts().free, 1u);
  }
  EXPECT_EQ(pool.counts().free, 2u);
  EXPECT_EQ(pool.counts().leased, 0u);
}

TEST(PagePool, an_empty_pool_says_so_and_recovers) {
  PagePool pool(1);
  auto lease = pool.take();
  EXPECT_FALSE(pool.take().has_value());
  lease.reset();
  EXPECT_TRUE(pool.take().has_value());
}

TEST(PagePool, reserved_pages_are_taken_only_by_number) {
  PagePool pool(4, 2, 3);
  const auto only = pool.take();
  ASSERT_TRUE(only.has_value());
  EXPECT_FALSE(pool.take().has_value());
  EXPECT_EQ(pool.n_free(), 0u);
  {
    const PageLease lease = pool.take_at(PageId{2}, 1);
    EXPECT_EQ(pool.reserved_counts().leased, 1u);
    EXPECT_EQ(pool.counts(1).leased, 1u);
    EXPECT_EQ(pool.counts().leased, 2u);
    pool.seal(PageId{2});
  }
  EXPECT_EQ(pool.reserved_counts().cached, 1u);
  pool.evict(PageId{2});
  EXPECT_EQ(pool.reserved_counts().free, 3u);
  EXPECT_FALSE(pool.take().has_value()) << "it did not come among the others";
}

TEST(PagePool, pages_without_an_owner_are_reported_once_in_order) {
  PagePool pool(2);
  auto first = pool.take(), second = pool.take();
  const PageId ids[] = {first->id(), second->id()};
  for (const PageId id : ids) pool.seal(id);
  first.reset();
  second.reset();
  for (int i = 0; i < 10; ++i) const PageLease again = pool.lease(ids[0]);
  std::vector<PageId> unused;
  pool.take_unused(unused);
  EXPECT_EQ(unused, std::vector<PageId>(std::begin(ids), std::end(ids)));
  pool.take_unused(unused);
  EXPECT_TRUE(unused.empty());
  for (int i = 0; i < 2; ++i) const PageLease again = pool.lease(ids[1]);
  pool.take_unused(unused);
  EXPECT_EQ(unused, std::vector<PageId>{ids[1]});
}

TEST(PagePool, a_page_shared_by_two_sequences_survives_the_end_of_one) {
  PagePool pool(1);
  auto first = pool.take();
  const PageId id = first->id();
  pool.seal(id);
  std::optional<PageLease> second = pool.lease(id);
  first.reset();
  EXPECT_EQ(pool.counts().sealed, 1u);
  EXPECT_EQ(pool.n_owners(id), 1u);
  second.reset();
  EXPECT_EQ(pool.counts().cached, 1u);
}

TEST(PagePool, a_cached_page_can_be_leased_again_or_evicted) {
  PagePool pool(1);
  auto lease = pool.take();
  const PageId id = lease->id();
  pool.seal(id);
  lease.reset();
  lease = pool.lease(id);
  EXPECT_EQ(pool.counts().sealed, 1u);
  lease.reset();
  pool.evict(id);
  EXPECT_EQ(pool.counts().free, 1u);
}

TEST(PagePool, a_moved_lease_gives_its_page_back_once) {
  PagePool pool(1);
  {
    auto lease = pool.take();
    PageLease moved = std::move(*lease);
    lease.reset();
    EXPECT_EQ(pool.counts().leased, 1u);
  }
  EXPECT_EQ(pool.counts().free, 1u);
}

TEST(PagePoolDeathTest, evicting_a_page_in_use_is_a_bug) {
  PagePool pool(1);
  const auto lease = pool.take();
  EXPECT_DEATH(pool.evict(lease->id()), "does not hold");
}

// A simple model of the pool: the owners of each page, and whether it was sealed.
struct PlainPool {
  struct Page {
    std::vector<PageLease> owners;
    bool sealed = false;
  };
  std::map<uint32_t, Page> pages;  // all pages that are not free

  PageCounts counts(uint32_t n_pages) const {
    PageCounts c;
    for (const auto& [id, page] : pages) {
      if (page.owners.empty()) {
        ++c.cached;
      } else if (page.sealed) {
        ++c.sealed;
      } else {
        ++c.leased;
      }
    }
    c.free = n_pages - static_cast<uint32_t>(pages.size());
    return c;
  }
};

TEST(PagePool, random_operations_agree_with_a_plain_model_at_every_step) {
  constexpr uint32_t kPages = 13;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    PagePool pool(kPages);
    PlainPool plain;
    std::mt19937 random(seed);
    for (int step = 0; step < 5000; ++step) {
      const uint32_t id = random() % kPages;
      const auto it = plain.pages.find(id);
      switch (random() % 4) {
        case 0: {
          auto lease = pool.take();
          ASSERT_EQ(lease.has_value(), plain.pages.size() < kPages);
          if (!lease) break;
          const auto taken = static_cast<uint32_t>(lease->id());
          ASSERT_FALSE(plain.pages.contains(taken));
          plain.pages[taken].owners.push_back(std::move(*lease));
          break;
        }
        case 1:
          if (it == plain.pages.end()) break;
          if (!it->second.sealed) {
            pool.seal(PageId{id});
            it->second.sealed = true;
          } else {
            it->second.owners.push_back(pool.lease(PageId{id}));
          }
          break;
        case 2:
          if (it == plain.pages.end() || it->second.owners.empty()) break;
          it->second.owners.pop_back();
          if (it->second.owners.empty() && !it->second.sealed) plain.pages.erase(it);
          break;
        case 3:
          if (it == plain.pages.end() || !it->second.owners.empty()) break;
          pool.evict(PageId{id});
          plain.pages.erase(it);
          break;
      }
      const PageCounts expected = plain.counts(kPages);
      ASSERT_EQ(pool.counts().free, expected.free);
      ASSERT_EQ(pool.counts().leased, expected.leased);
      ASSERT_EQ(pool.counts().sealed, expected.sealed);
      ASSERT_EQ(pool.counts().cached, expected.cached);
      ASSERT_EQ(pool.counts().total(), kPages);
    }
    plain.pages.clear();
    EXPECT_EQ(pool.counts().leased + pool.counts().sealed, 0u);
  }
}

}  // namespace
}  // namespace kvik
