#include "tier/prefix_file/used_folder.h"

#include <gtest/gtest.h>

#include "tier/prefix_file/prefix_file_fixture.h"

namespace kvik {
namespace {

// Reads while a server has the folder; it may have evicted the page since.
TEST_F(PrefixFile, a_used_folder_is_only_read) {
  const std::string folder = folder_.path() + "/used";
  EXPECT_EQ(UsedFolder::open(folder).error().code, ErrorCode::kNotFound);
  const auto pages = pages_of(3 * kPageTokens);
  const auto owner = tier_in(folder);
  ASSERT_TRUE(store(*owner, pages).has_value());
  const auto used = UsedFolder::open(folder);
  ASSERT_TRUE(used.has_value()) << used.error().message;
  EXPECT_EQ(n_found(**used, pages), pages.size());
  EXPECT_EQ((*used)->children(root_, 0, SharingMark::kAll, 9).size(), 1);
  const auto more = chain_of_pages(root_, kPageTokens, 2, kPageBytes);
  ASSERT_TRUE(store(**used, more).has_value());
  EXPECT_EQ(n_found(*owner, more), 0);
  ASSERT_TRUE(owner->clear().has_value());
  EXPECT_EQ(n_found(**used, pages), 0);
}

}  // namespace
}  // namespace kvik
