#include "engine/schedule/return_predictor.h"

#include <gtest/gtest.h>

namespace kvik {
namespace {

Duration second(double n) { return from_ms(1e3 * n); }

TEST(ReturnPredictor, expects_nothing_where_few_requests_continue_a_conversation) {
  ReturnPredictor returns;
  EXPECT_FALSE(returns.usual_pause());
  for (int i = 0; i < 400; ++i) {
    returns.observe(i % 4 == 0 ? std::optional(second(5)) : std::nullopt);
  }
  EXPECT_FALSE(returns.usual_pause());
}

TEST(ReturnPredictor, learns_the_time_within_which_nine_of_ten_return) {
  ReturnPredictor returns;
  double sum_s = 0;
  int n = 0;
  for (int i = 0; i < 4000; ++i) {
    returns.observe(second(2 + i * 7 % 10));  // 2 to 11 s, equally often
    if (i < 1000) continue;
    sum_s += to_s(*returns.usual_pause());
    ++n;
  }
  EXPECT_NEAR(sum_s / n, 11, 2);
}

TEST(ReturnPredictor, follows_a_change) {
  ReturnPredictor returns;
  for (int i = 0; i < 100; ++i) returns.observe(second(3));
  EXPECT_LT(to_s(*returns.usual_pause()), 5);
  for (int i = 0; i < 100; ++i) returns.observe(second(60));
  EXPECT_GT(to_s(*returns.usual_pause()), 40);
  for (int i = 0; i < 200; ++i) returns.observe(std::nullopt);
  EXPECT_FALSE(returns.usual_pause());
}

}  // namespace
}  // namespace kvik
