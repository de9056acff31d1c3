#include "engine/sample/weight_of.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace kvik {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Goes through the floats from -0 to -130: all of them with KVIK_TEST_LONG.
template <class Body>
void for_floats(const Body& body) {
  const uint32_t stride = std::getenv("KVIK_TEST_LONG") ? 1 : 257;
  const uint32_t end = std::bit_cast<uint32_t>(-130.0f);
  for (uint32_t bits = std::bit_cast<uint32_t>(-0.0f); bits < end; bits += stride) {
    body(std::bit_cast<float>(bits));
  }
}

TEST(WeightOf, is_within_0502_ulp_of_the_exponential) {
  double worst = 0;
  for_floats([&](float x) {
    const double exact = std::exp(static_cast<double>(x));
    if (exact < std::numeric_limits<float>::min()) return;
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::abs(weight_of(x) - exact) / ulp);
  });
  EXPECT_LT(worst, 0.502);
}

TEST(WeightOf, never_decreases) {
  float last = 1;
  for_floats([&](float x) {
    ASSERT_LE(weight_of(x), last) << x;
    last = weight_of(x);
  });
  EXPECT_EQ(last, 0);
}

TEST(WeightOf, of_the_largest_logit_is_one_and_of_no_number_is_zero) {
  EXPECT_EQ(weight_of(0.0f), 1);
  EXPECT_EQ(weight_of(-0.0f), 1);
  EXPECT_EQ(weight_of(-104), 0);
  EXPECT_EQ(weight_of(-kInf), 0);
  EXPECT_EQ(weight_of(kInf), 0);
  EXPECT_EQ(weight_of(std::numeric_limits<float>::quiet_NaN()), 0);
}

}  // namespace
}  // namespace kvik
