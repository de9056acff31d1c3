// Tests that every tier must pass.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "support/redis_process.h"
#include "support/temporary_folder.h"
#include "tier/disk_tier.h"
#include "tier/folder_tier.h"
#include "tier/redis_tier.h"
#include "tier/stored_pages.h"

namespace kvik {
namespace {

constexpr size_t kPageBytes = 5000;
const PageKey kRoot = root_key("a model", "");

struct OnDisk {
  static constexpr const char* kName = "disk";
  TemporaryFolder folder;
  std::unique_ptr<Tier> tier() const {
    auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 8 << 20}, posix_file_calls());
    CHECK(tier.has_value());
    return std::move(*tier);
  }
};

struct InFolder {
  static constexpr const char* kName = "folder";
  TemporaryFolder folder;
  std::unique_ptr<Tier> tier() const {
    return std::make_unique<FolderTier>(FolderTierOptions{.folder = folder.path()});
  }
};

struct InRedis {
  static constexpr const char* kName = "redis";
  RedisProcess redis;
  std::unique_ptr<Tier> tier() const {
    return std::make_unique<RedisTier>(
        RedisTierOptions{.address = redis.address(), .timeout = std::chrono::seconds(5)});
  }
};

template <class Place>
class AnyTier : public testing::Test {};

struct PlaceNames {
  template <class Place>
  static std::string GetName(int) {
    return Place::kName;
  }
};
using Places = testing::Types<OnDisk, InFolder, InRedis>;
TYPED_TEST_SUITE(AnyTier, Places, PlaceNames);

TYPED_TEST(AnyTier, a_page_is_its_tenants_until_another_one_computed_it) {
  const TypeParam place;
  const std::unique_ptr<Tier> tier = place.tier();
  const SharingMark one = mark_of_tenant(1), other = mark_of_tenant(2), third = mark_of_tenant(3);
  auto pages = chain_of_pages(kRoot, 64, 1, kPageBytes);
  for (StoredPage& page : pages) page.page.known = one;
  ASSERT_TRUE(store(*tier, pages).has_value());
  EXPECT_EQ(look_up(*tier, pages[0], one), Tier::Get::kFound);
  EXPECT_EQ(look_up(*tier, pages[0], other), Tier::Get::kAbsent);
  EXPECT_EQ(tier->children(kRoot, 0, one, 10).size(), 1u);
  EXPECT_EQ(tier->children(kRoot, 0, other, 10).size(), 0u);
  pages[0].page.known = other;
  ASSERT_TRUE(store(*tier, std::span(pages).first(1)).has_value());
  EXPECT_EQ(look_up(*tier, pages[0], third), Tier::Get::kFound);
  EXPECT_EQ(look_up(*tier, pages[1], third), Tier::Get::kAbsent);
  EXPECT_EQ(tier->children(kRoot, 0, third, 10).size(), 1u);
}

TYPED_TEST(AnyTier, names_the_children_of_a_page) {
  const TypeParam place;
  const std::unique_ptr<Tier> tier = place.tier();
  const auto a = chain_of_pages(kRoot, 40, 1, kPageBytes);
  const auto b = chain_of_pages(kRoot, 40, 2, kPageBytes);
  ASSERT_TRUE(store(*tier, a).has_value());
  ASSERT_TRUE(store(*tier, b).has_value());
  EXPECT_EQ(tier->children(kRoot, 0, SharingMark::kAll, 10).size(), 2u);
  EXPECT_EQ(tier->children(kRoot, 0, SharingMark::kAll, 1).size(), 1u);
  EXPECT_EQ(tier->children(kRoot, 1, SharingMark::kAll, 10).size(), 0u);
  const auto below = tier->children(a[0].page.key, 0, SharingMark::kAll, 10);
  ASSERT_EQ(below.size(), 1u);
  EXPECT_EQ(below[0].key, a[1].page.key);
  EXPECT_EQ(below[0].tokens, a[1].page.tokens);
}

}  // namespace
}  // namespace kvik
