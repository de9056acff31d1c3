#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/isa/vec_scalar.h"

// exp and tanh of the scalar instruction set. The row kernels' tests (rows_test.cpp) check that the
// other instruction sets give the same bits.
namespace kvik::cpu::scalar {
namespace {

#include "backend/cpu/isa/vec_math.inl"

float exp_of(float x) { return exp(set1(x)).lane[5]; }
float tanh_of(float x) { return tanh(set1(x)).lane[5]; }

// Returns the distance from the exact value in units in the last place.
double ulps(float value, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(value - exact) / std::ldexp(1.0, exponent - 24);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(VecMath, exp_is_within_about_an_ulp_over_its_range) {
  double worst = 0;
  for (float x = -87.3365f; x < 88.375f; x += 0x1p-9f) {
    worst = std::max(worst, ulps(exp_of(x), std::exp(double{x})));
  }
  EXPECT_LT(worst, 1.1);
}

TEST(VecMath, exp_is_exact_at_zero_and_near_it) {
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(-0.0f), 1.0f);
  for (float x = 1.0f; x > 1e-38f; x *= 0.7f) {
    EXPECT_LT(ulps(exp_of(x), std::exp(double{x})), 1.0) << x;
    EXPECT_LT(ulps(exp_of(-x), std::exp(double{-x})), 1.0) << -x;
  }
}

TEST(VecMath, exp_ends_in_zero_below_and_stays_finite_above) {
  EXPECT_GE(exp_of(-87.33654f), std::numeric_limits<float>::min());
  EXPECT_EQ(exp_of(-87.33655f), 0.0f);
  EXPECT_EQ(exp_of(-1e30f), 0.0f);
  EXPECT_EQ(exp_of(-kInfinity), 0.0f);
  EXPECT_FALSE(std::signbit(exp_of(-kInfinity)));
  EXPECT_EQ(exp_of(1000.0f), exp_of(88.375f));
  EXPECT_EQ(exp_of(kInfinity), exp_of(88.375f));
  EXPECT_TRUE(std::isfinite(exp_of(kInfinity)));
}

TEST(VecMath, exp_never_decreases) {
  float before = 0.0f;
  for (float x = -87.5f; x < 88.5f; x += 0x1p-9f) {
    const float now = exp_of(x);
    ASSERT_GE(now, before) << x;
    before = now;
  }
}

TEST(VecMath, tanh_keeps_its_relative_accuracy_from_tiny_to_large) {
  double worst = 0;
  for (float x = -12.0f; x < 12.0f; x += 0x1p-11f) {
    if (x != 0) worst = std::max(worst, ulps(tanh_of(x), std::tanh(double{x})));
  }
  for (float x = 1.0f; x > 1e-36f; x *= 0.99f) {
    worst = std::max(worst, ulps(tanh_of(x), std::tanh(double{x})));
    worst = std::max(worst, ulps(tanh_of(-x), std::tanh(double{-x})));
  }
  EXPECT_LT(worst, 3.0);
}

TEST(VecMath, tanh_ends_in_one_on_both_sides) {
  EXPECT_EQ(tanh_of(0.0f), 0.0f);
  for (const float x : {15.0f, 1e10f, kInfinity}) {
    EXPECT_EQ(tanh_of(x), 1.0f);
    EXPECT_EQ(tanh_of(-x), -1.0f);
  }
}

TEST(VecMath, a_nan_stays_a_nan) {
  EXPECT_TRUE(std::isnan(exp_of(kNaN)));
  EXPECT_TRUE(std::isnan(tanh_of(kNaN)));
  EXPECT_TRUE(std::isnan(soft_capped(set1(kNaN), set1(30.0f)).lane[0]));
}

}  // namespace
}  // namespace kvik::cpu::scalar
