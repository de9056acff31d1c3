#include <gtest/gtest.h>

#include "tier/prefix_file/prefix_file_fixture.h"

// Tests that pages can be moved to another cache salt, and that no other salt finds them.
namespace kvik {
namespace {

// The pages in the file do not reveal the salt, and no salt finds those of another one.
TEST_F(PrefixFile, pages_move_from_one_salt_to_another) {
  const KvLayout layout(kPageBytes);
  const auto plain = pages_of(4 * kPageTokens + 5);
  auto salted =
      chain_of_pages(root_key(kIdentity.text(), "mine"), 4 * kPageTokens + 5, 1, kPageBytes);
  for (size_t i = 0; i < plain.size(); ++i) salted[i].bytes = plain[i].bytes;
  ASSERT_TRUE(export_pages(plain, layout).has_value());
  const std::string file_of_plain = read_bytes(path_);
  const auto from = tier_in(folder_.path() + "/salted");
  ASSERT_TRUE(store(*from, salted).has_value());
  const std::vector<TokenId> tokens = tokens_of(plain);
  auto out = NewFile::create(path_, 0600);
  ASSERT_TRUE(out.has_value());
  const auto header = export_prefix(*from,
                                    {.identity = kIdentity,
                                     .layout = layout,
                                     .salt = "mine",
                                     .tokens = tokens,
                                     .ends = {static_cast<uint32_t>(tokens.size())}},
                                    std::move(*out), "");
  ASSERT_TRUE(header.has_value()) << header.error().message;
  EXPECT_TRUE(read_bytes(path_) == file_of_plain);

  const auto to = tier_in(folder_.path() + "/other");
  auto file = PrefixFileReader::open(path_, "");
  ASSERT_TRUE(file.has_value());
  const SharingMark alice = mark_of_tenant(7);
  ASSERT_TRUE(import_prefix(*file, *to, {.salt = "other", .known = alice}).has_value());
  auto moved =
      chain_of_pages(root_key(kIdentity.text(), "other"), 4 * kPageTokens + 5, 1, kPageBytes);
  for (size_t i = 0; i < plain.size(); ++i) moved[i].bytes = plain[i].bytes;
  EXPECT_EQ(n_found(*to, moved), moved.size());
  EXPECT_EQ(n_found(*to, plain), 0);
  EXPECT_EQ(n_found(*to, salted), 0);
  EXPECT_EQ(look_up(*to, moved.back(), alice), Tier::Get::kFound);
  EXPECT_EQ(look_up(*to, moved.back(), mark_of_tenant(8)), Tier::Get::kAbsent);
}

TEST_F(PrefixFile, snapshots_move_to_another_salt) {
  KvLayout layout(kPageBytes);
  layout.state_bytes = 2 * kPageBytes;
  auto pages = pages_of(3 * kPageTokens);
  const auto snapshot = snapshot_of(pages, 2 * kPageTokens + 20, layout.n_snapshot_pages());
  pages.insert(pages.end(), snapshot.begin(), snapshot.end());
  ASSERT_TRUE(export_pages(pages, layout).has_value());
  const auto to = tier_in(folder_.path() + "/other");
  auto file = PrefixFileReader::open(path_, "");
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(import_prefix(*file, *to, {.salt = "other"}).has_value());
  const PageKey root = root_key(kIdentity.text(), "other");
  const auto chain = chain_of_pages(root, 3 * kPageTokens, 1, kPageBytes);
  StoredPage state{chain[2].page, snapshot[0].bytes};
  state.page.tokens.resize(20);
  state.page.key = child_key(state.page.parent, state.page.tokens);
  state.page.group = kSnapshotGroup;
  EXPECT_EQ(look_up(*to, state), Tier::Get::kFound);
}

}  // namespace
}  // namespace kvik
