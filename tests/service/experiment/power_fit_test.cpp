#include "service/experiment/power_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace kvik {
namespace {

TEST(PowerFit, finds_the_exponent_that_points_were_made_with) {
  for (const double exponent : {-0.5, 0.0, 1.0, 2.0}) {
    std::vector<double> x, y;
    for (int i = 1; i <= 50; ++i) {
      x.push_back(i);
      y.push_back(3.5 * std::pow(i, exponent));
    }
    const auto fit = fit_power(x, y);
    ASSERT_TRUE(fit.has_value());
    EXPECT_NEAR(fit->exponent, exponent, 1e-12);
    EXPECT_NEAR(fit->factor, 3.5, 1e-9);
    EXPECT_NEAR(fit->exponent_error, 0, 1e-6);
    EXPECT_NEAR(fit->r_squared, 1, exponent == 0 ? 1 : 1e-9);
    EXPECT_NEAR(fit->x_min, 1, 1e-12);
    EXPECT_NEAR(fit->x_max, 50, 1e-9);
    EXPECT_EQ(fit->n_points, 50u);
    EXPECT_NEAR(fit->at(10), 3.5 * std::pow(10, exponent), 1e-9);
  }
}

// The expected values are from numpy.polyfit of the logarithms.
TEST(PowerFit, returns_the_standard_error_of_the_exponent) {
  const std::vector<double> x = {1, 2, 4, 8, 16};
  const std::vector<double> y = {1.1, 1.8, 4.4, 7.2, 17.6};
  const auto fit = fit_power(x, y);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->exponent, 1, 1e-9);
  EXPECT_NEAR(fit->exponent_error, 0.057901323, 1e-8);
  EXPECT_NEAR(fit->r_squared, 0.990042460, 1e-8);
}

TEST(PowerFit, leaves_out_what_has_no_logarithm) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> x = {0, 1, 2, 3, -4, 5, 6};
  const std::vector<double> y = {9, 2, 4, 6, 9, 0, nan};
  const auto fit = fit_power(x, y);
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->n_points, 3u);
  EXPECT_NEAR(fit->exponent, 1, 1e-12);
}

TEST(PowerFit, needs_enough_points_at_different_x) {
  EXPECT_FALSE(fit_power(std::vector<double>{1, 2}, std::vector<double>{1, 2}));
  EXPECT_FALSE(fit_power(std::vector<double>{2, 2, 2}, std::vector<double>{1, 2, 3}));
  EXPECT_FALSE(fit_power({}, {}));
}

}  // namespace
}  // namespace kvik
