#include "backend/exact_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvik {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns ordinary numbers, and those at which e^x overflows, becomes denormal or underflows.
std::vector<double> arguments() {
  std::vector<double> x = {0.0,      -0.0,   1e-300, -1e-300, 1e-17,     -1e-17,    0x1p-30,
                           -0x1p-30, 709.0,  709.7,  709.8,   710.0,     711.0,     -708.0,
                           -708.4,   -709.0, -744.0, -745.0,  -745.2,    -746.0,    -747.0,
                           746.0,    747.0,  1e300,  -1e300,  kInfinity, -kInfinity};
  std::mt19937_64 random(1);
  for (const double range : {1e-3, 1.0, 30.0, 700.0}) {
    std::uniform_real_distribution<double> draw(-range, range);
    for (int i = 0; i < 20000; ++i) x.push_back(draw(random));
  }
  return x;
}

// Returns whether the values differ by at most `n` units in the last place, or of the smallest
// denormal.
bool is_close(double got, double expected, double n) {
  if (got == expected) return true;
  const double unit = std::max(std::abs(expected) * 0x1p-52, 0x1p-1074);
  return std::abs(got - expected) <= n * unit;
}

TEST(ExactMath, is_what_the_c_library_says_but_for_the_last_places) {
  for (const double x : arguments()) {
    EXPECT_TRUE(is_close(exact_exp(x), std::exp(x), 4)) << x << ": " << exact_exp(x);
    EXPECT_TRUE(is_close(exact_sigmoid(x), 1 / (1 + std::exp(-x)), 4)) << x;
    const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    EXPECT_TRUE(is_close(exact_softplus(x), softplus, 4)) << x << ": " << exact_softplus(x);
  }
}

TEST(ExactMath, of_no_number_is_none) {
  EXPECT_TRUE(std::isnan(exact_exp(kNan)));
  EXPECT_TRUE(std::isnan(exact_sigmoid(kNan)));
  EXPECT_TRUE(std::isnan(exact_softplus(kNan)));
}

}  // namespace
}  // namespace kvik
