#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "tier/stored_pages.h"

// Tests how the disk tier stores which tenants may read a page.
namespace kvik {
namespace {

constexpr size_t kPageBytes = 1000;
const PageKey kRoot = root_key("a model", "");
const SharingMark kAnn = mark_of_tenant(11), kBob = mark_of_tenant(22), kCat = mark_of_tenant(33);

std::unique_ptr<DiskTier> open_tier(const TemporaryFolder& folder) {
  auto tier = DiskTier::open({.folder = folder.path(), .max_bytes = 64 << 20});
  EXPECT_TRUE(tier.has_value());
  return std::move(*tier);
}

// Returns the pages of a sequence that one tenant computed.
std::vector<StoredPage> pages_of(SharingMark known, uint32_t n_tokens, uint32_t seed) {
  auto pages = chain_of_pages(kRoot, n_tokens, seed, kPageBytes);
  for (StoredPage& stored : pages) stored.page.known = known;
  return pages;
}

size_t n_found_by(DiskTier& tier, const std::vector<StoredPage>& pages, SharingMark reader) {
  return static_cast<size_t>(std::ranges::count_if(pages, [&](const StoredPage& page) {
    return look_up(tier, page, reader) == Tier::Get::kFound;
  }));
}

TEST(DiskMarks, a_page_is_absent_for_other_tenants) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  const auto pages = pages_of(kAnn, 100, 1);
  ASSERT_TRUE(store(*tier, pages));
  EXPECT_EQ(n_found_by(*tier, pages, kAnn), 4u);
  EXPECT_EQ(n_found_by(*tier, pages, SharingMark::kAll), 4u);
  EXPECT_EQ(look_up(*tier, pages[0], kBob), Tier::Get::kAbsent);
  EXPECT_EQ(tier->children(kRoot, 0, kAnn, 10).size(), 1u);
  EXPECT_TRUE(tier->children(kRoot, 0, kBob, 10).empty());
}

TEST(DiskMarks, a_page_of_two_tenants_is_shared_and_stored_once) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  ASSERT_TRUE(store(*tier, pages_of(kAnn, 100, 1)));
  ASSERT_TRUE(store(*tier, pages_of(kBob, 64, 1)));
  EXPECT_EQ(tier->size().n_pages, 4u);
  EXPECT_EQ(n_found_by(*tier, pages_of(kAnn, 100, 1), kCat), 2u);
  TierPage wanted = pages_of(kAnn, 32, 1)[0].page;
  const AlignedBytes slot = slot_for(*tier, kPageBytes);
  ASSERT_EQ(tier->get(wanted, kCat, slot.span(), kPageBytes), Tier::Get::kFound);
  EXPECT_EQ(wanted.known, SharingMark::kAll) << "the reader of a fetched page gets its mark";
}

TEST(DiskMarks, of_one_batch_count_together) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  auto both = pages_of(kAnn, 32, 1);
  both.push_back(pages_of(kBob, 32, 1)[0]);
  ASSERT_TRUE(store(*tier, both));
  EXPECT_EQ(tier->size().n_pages, 1u);
  EXPECT_EQ(look_up(*tier, both[0], kCat), Tier::Get::kFound);
}

TEST(DiskMarks, children_of_others_do_not_displace_own_ones) {
  const TemporaryFolder folder;
  const auto tier = open_tier(folder);
  for (uint32_t seed = 100; seed < 120; ++seed) {
    ASSERT_TRUE(store(*tier, pages_of(kBob, 32, seed)));
  }
  ASSERT_TRUE(store(*tier, pages_of(kAnn, 32, 1)));
  ASSERT_TRUE(store(*tier, pages_of(SharingMark::kAll, 32, 2)));
  EXPECT_EQ(tier->children(kRoot, 0, kAnn, 2).size(), 2u);
}

TEST(DiskMarks, survive_a_restart_and_are_the_stricter_ones_where_the_index_is_lost) {
  const TemporaryFolder folder;
  const auto anns = pages_of(kAnn, 64, 1), shared = pages_of(kAnn, 64, 2);
  {
    const auto tier = open_tier(folder);
    ASSERT_TRUE(store(*tier, anns));
    ASSERT_TRUE(store(*tier, shared));
    ASSERT_TRUE(store(*tier, pages_of(kBob, 64, 2)));
  }
  {
    const auto tier = open_tier(folder);
    EXPECT_EQ(n_found_by(*tier, anns, kBob), 0u);
    EXPECT_EQ(n_found_by(*tier, anns, kAnn), 2u);
    EXPECT_EQ(n_found_by(*tier, shared, kCat), 2u);
  }
  for (const char* ending : {"", "-wal", "-shm"}) {
    ::unlink((folder.path() + "/index.db" + ending).c_str());
  }
  {
    std::unique_ptr<FILE, int (*)(FILE*)> file(
        std::fopen((folder.path() + "/index.db").c_str(), "w"), &std::fclose);
    ASSERT_NE(file, nullptr);
    std::fputs("no index", file.get());
  }
  const auto tier = open_tier(folder);
  EXPECT_EQ(n_found_by(*tier, anns, kAnn), 2u);
  EXPECT_EQ(n_found_by(*tier, anns, kBob), 0u);
  EXPECT_EQ(n_found_by(*tier, shared, kCat), 0u);
  EXPECT_EQ(n_found_by(*tier, shared, kAnn), 2u);
}

TEST(DiskMarks, random_stores_and_restarts_agree_with_a_plain_model) {
  const TemporaryFolder folder;
  auto tier = open_tier(folder);
  std::mt19937 random(3);
  const std::vector<SharingMark> tenants = {kAnn, kBob, kCat};
  std::map<uint32_t, SharingMark> plain;  // by seed of the page
  for (int step = 0; step < 300; ++step) {
    const uint32_t seed = random() % 20;
    const SharingMark who = random() % 10 == 0 ? SharingMark::kNoTenant : tenants[random() % 3];
    ASSERT_TRUE(store(*tier, pages_of(who, 32, seed)));
    plain[seed] = plain.contains(seed) ? joined(plain[seed], who) : who;
    if (step % 50 == 49) {
      tier.reset();
      tier = open_tier(folder);
    }
    for (const auto& [page, known] : plain) {
      for (const SharingMark reader : tenants) {
        const bool is_found =
            look_up(*tier, pages_of(who, 32, page)[0], reader) == Tier::Get::kFound;
        ASSERT_EQ(is_found, may_hit(reader, known)) << step << " " << page;
      }
    }
  }
}

}  // namespace
}  // namespace kvik
