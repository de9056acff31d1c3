#include "tensor/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace kvik {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

uint16_t native_f16(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

// Calls visit(value) for floats of every exponent and sign: mantissas around each rounding place of
// `kept` mantissa bits, and a spread of others.
template <class Visit>
void for_telling_floats(int kept, const Visit& visit) {
  const uint32_t half = 1u << (22 - kept);
  for (uint32_t high = 0; high < 512; ++high) {
    for (uint32_t step = 0; step < (1u << kept); ++step) {
      const uint32_t base = (high << 23) | (step << (23 - kept));
      for (const uint32_t low :
           {0u, 1u, half - 1, half, half + 1, 2 * half - 1, 0x1234567u % half}) {
        visit(std::bit_cast<float>(base + low));
      }
    }
  }
}

TEST(Half, every_f16_becomes_the_float_that_the_compiler_makes_of_it) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float expected = static_cast<float>(std::bit_cast<_Float16>(half));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(half))) << bits;
    } else {
      EXPECT_TRUE(same_bits(f16_to_f32(half), expected)) << bits;
    }
  }
}

TEST(Half, every_f16_survives_the_way_to_f32_and_back) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(f16_to_f32(half))) continue;
    EXPECT_EQ(f32_to_f16(f16_to_f32(half)), half);
  }
}

TEST(Half, f32_rounds_to_f16_as_the_compiler_does) {
  size_t n_wrong = 0;
  for_telling_floats(10, [&](float value) {
    if (std::isnan(value)) {
      n_wrong += !std::isnan(f16_to_f32(f32_to_f16(value)));
    } else {
      n_wrong += f32_to_f16(value) != native_f16(value);
    }
  });
  EXPECT_EQ(n_wrong, 0u);
}

TEST(Half, f16_overflows_to_infinity_at_65520) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(Half, every_bf16_survives_the_way_to_f32_and_back) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(bf16_to_f32(half))) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(bf16_to_f32(half))))) << bits;
    } else {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(half)), half);
    }
  }
}

TEST(Half, f32_rounds_to_the_nearest_bf16_and_to_the_even_one_in_a_tie) {
  size_t n_wrong = 0;
  for_telling_floats(7, [&](float value) {
    if (!std::isfinite(value)) return;
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto below = static_cast<uint16_t>(bits >> 16);
    const uint32_t rest = bits & 0xffffu;
    const bool up = rest > 0x8000u || (rest == 0x8000u && (below & 1u));
    n_wrong += f32_to_bf16(value) != static_cast<uint16_t>(below + (up ? 1 : 0));
  });
  EXPECT_EQ(n_wrong, 0u);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace kvik
