#include "tier/read_estimate.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

TEST(ReadEstimate, knows_nothing_before_some_pages_were_read) {
  ReadEstimate estimate;
  EXPECT_FALSE(estimate.page_ms().has_value());
  for (int i = 0; i < 8; ++i) estimate.observe(2);
  ASSERT_TRUE(estimate.page_ms().has_value());
  EXPECT_NEAR(*estimate.page_ms(), 2, 1e-9);
}

TEST(ReadEstimate, knows_a_slow_tier_after_few_pages) {
  ReadEstimate estimate;
  estimate.observe(200);
  EXPECT_FALSE(estimate.page_ms().has_value());
  estimate.observe(100);
  ASSERT_TRUE(estimate.page_ms().has_value());
  EXPECT_NEAR(*estimate.page_ms(), 150, 1e-9);
}

TEST(ReadEstimate, an_outlier_has_little_effect_and_it_learns_a_slow_device) {
  ReadEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.observe(1);
  estimate.observe(1000);
  EXPECT_LT(*estimate.page_ms(), 1.1);
  for (int i = 0; i < 200; ++i) estimate.observe(10);
  EXPECT_GT(*estimate.page_ms(), 8);
}

TEST(ReadEstimate, decays_while_reads_are_declined) {
  ReadEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.observe(100);
  for (int i = 0; i < 100; ++i) estimate.note_declined();
  EXPECT_LT(*estimate.page_ms(), 1);
}

}  // namespace
}  // namespace kvik
