#include "engine/speculate/row_costs.h"

#include <gtest/gtest.h>

#include <random>

namespace kvik {
namespace {

TEST(RowCosts, nothing_is_known_before_the_first_step) {
  EXPECT_EQ(RowCosts().ms(1, 0), 0);
  EXPECT_EQ(RowCosts().ms(8, 2), 0);
}

TEST(RowCosts, rows_beyond_what_was_observed_cost_what_a_prompts_rows_do) {
  RowCosts costs;
  costs.observe(1, 20);
  EXPECT_DOUBLE_EQ(costs.ms(1, 2), 20);
  EXPECT_DOUBLE_EQ(costs.ms(5, 2), 28);
  EXPECT_GT(costs.ms(5, 0), 25) << "dear, where no prompt has told";
}

TEST(RowCosts, unobserved_row_counts_are_interpolated) {
  RowCosts costs;
  costs.observe(1, 20);
  costs.observe(5, 24);
  EXPECT_DOUBLE_EQ(costs.ms(2, 2), 21);
  EXPECT_DOUBLE_EQ(costs.ms(7, 2), 28);
}

TEST(RowCosts, fewer_rows_never_cost_more_than_more_of_them) {
  RowCosts costs;
  costs.observe(1, 20);
  costs.observe(2, 30);
  costs.observe(8, 24);
  EXPECT_LE(costs.ms(2, 2), costs.ms(8, 2));
}

TEST(RowCosts, an_outlier_has_little_effect) {
  RowCosts costs;
  for (int i = 0; i < 20; ++i) costs.observe(4, 20);
  costs.observe(4, 200);
  EXPECT_LT(costs.ms(4, 0), 20 * 1.08);
}

TEST(RowCosts, a_wrong_first_observation_is_forgotten) {
  RowCosts costs;
  costs.observe(4, 500);  // as if another process used the machine
  for (int i = 0; i < 2000; ++i) costs.observe(1, 20);
  EXPECT_NEAR(costs.ms(4, 2), 26, 0.5);
}

TEST(RowCosts, a_curve_is_learned_from_noisy_steps) {
  const auto truth = [](uint32_t n) { return n <= 8 ? 20 + 0.5 * n : 24 + 3.0 * (n - 8); };
  std::mt19937 random(1);
  std::normal_distribution<double> noise(1, 0.05);
  RowCosts costs;
  for (int i = 0; i < 3000; ++i) {
    const uint32_t n = 1 + random() % 16;
    costs.observe(n, truth(n) * noise(random) * (random() % 100 == 0 ? 3 : 1));
  }
  for (uint32_t n = 1; n <= 16; ++n) EXPECT_NEAR(costs.ms(n, 3), truth(n), 0.08 * truth(n)) << n;
}

}  // namespace
}  // namespace kvik
