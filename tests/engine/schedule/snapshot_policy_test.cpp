#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/schedule/snapshot_policy.h"

// Tests the positions at which states are kept.
namespace kvik {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Returns a layout in which a snapshot is as large as the K and V of 1,024 tokens.
KvLayout layout() {
  KvLayout layout(1000);
  layout.state_bytes = 32 * 1000;
  layout.n_states = 4;
  return layout;
}

std::vector<uint32_t> places(SnapshotPolicy& policy, const SnapshotPolicy::Prompt& prompt) {
  std::vector<uint32_t> places;
  for (const SnapshotMark& mark : policy.marks(prompt)) places.push_back(mark.n_tokens);
  return places;
}

TEST(SnapshotPolicy, a_prompt_is_kept_before_its_last_token) {
  SnapshotPolicy policy(layout());
  EXPECT_THAT(places(policy, {.n_tokens = 100}), ElementsAre(99));
  EXPECT_THAT(places(policy, {.n_tokens = 100, .n_found = 99}), IsEmpty());
}

TEST(SnapshotPolicy, or_where_its_last_message_ends) {
  SnapshotPolicy policy(layout());
  const std::vector<uint32_t> message_ends = {95};
  EXPECT_THAT(places(policy, {.n_tokens = 100, .message_ends = message_ends}), ElementsAre(95));
}

TEST(SnapshotPolicy, where_it_diverges_from_known_tokens) {
  SnapshotPolicy policy(layout());
  EXPECT_THAT(places(policy, {.n_tokens = 500, .n_found = 10, .n_known = 300}),
              ElementsAre(300, 499));
  EXPECT_THAT(places(policy, {.n_tokens = 500, .n_found = 290, .n_known = 300}), ElementsAre(499));
}

TEST(SnapshotPolicy, long_ones_at_distances_that_double) {
  SnapshotPolicy policy(layout());
  EXPECT_THAT(places(policy, {.n_tokens = 5000}), ElementsAre(1024, 2048, 4096, 4999));
  EXPECT_TRUE(policy.is_on_grid(8192));
  EXPECT_FALSE(policy.is_on_grid(3072));
}

TEST(SnapshotPolicy, unused_kinds_are_no_longer_kept) {
  SnapshotPolicy policy(layout());
  for (uint32_t i = 0; i < 20; ++i) places(policy, {.n_tokens = 5000});
  EXPECT_FALSE(policy.keeps_within(8192));
  policy.note_used(SnapshotKind::kGrid);
  EXPECT_TRUE(policy.keeps_within(8192));
  EXPECT_FALSE(policy.keeps_within(8191));
}

TEST(SnapshotPolicy, positions_requested_by_a_client_are_kept) {
  SnapshotPolicy policy(layout());
  const std::vector<uint32_t> wanted = {40};
  const auto marks = policy.marks({.n_tokens = 100, .wanted = wanted});
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0].n_tokens, 40u);
  EXPECT_EQ(marks[0].kind, SnapshotKind::kBranch);
}

TEST(SnapshotPolicy, unused_ends_are_kept_rarely_until_one_is_used) {
  SnapshotPolicy policy(layout());
  uint32_t n = 0;
  for (uint32_t i = 0; i < 100; ++i) n += policy.keeps_end(50, 10);
  EXPECT_LT(n, 16u);
  EXPECT_GE(n, 8u);
  for (uint32_t i = 0; i < 4; ++i) policy.note_used(SnapshotKind::kEnd);
  for (uint32_t i = 0; i < 10; ++i) EXPECT_TRUE(policy.keeps_end(50, 10));
}

TEST(SnapshotPolicy, models_without_a_state_keep_nothing) {
  SnapshotPolicy policy{KvLayout(1000)};
  EXPECT_THAT(places(policy, {.n_tokens = 5000}), IsEmpty());
  EXPECT_FALSE(policy.keeps_end(50, 10));
}

}  // namespace
}  // namespace kvik
