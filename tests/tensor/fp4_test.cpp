#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/blocks.h"
#include "tensor/blocks_32.h"
#include "tensor/encode/encode.h"

namespace kvik {
namespace {

std::vector<float> read(const BlockMXFP4& block) {
  std::vector<float> out(32);
  dequantize_row(ElementType::kMXFP4, reinterpret_cast<const std::byte*>(&block), out);
  return out;
}

BlockMXFP4 rounded(const std::vector<float>& values) {
  BlockMXFP4 block;
  quantize_row(ElementType::kMXFP4, values, reinterpret_cast<std::byte*>(&block));
  return block;
}

BlockMXFP4 encoded(const std::vector<float>& values) {
  BlockMXFP4 block;
  encode_row(ElementType::kMXFP4, values, {}, reinterpret_cast<std::byte*>(&block));
  return block;
}

// The sixteen numbers of E2M1, in the order of their bits.
constexpr float kE2M1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};

TEST(Fp4, nibbles_are_the_numbers_of_e2m1_times_a_power_of_two) {
  BlockMXFP4 block{.exponent = 127, .nibbles = {}};
  for (uint8_t i = 0; i < 16; ++i) block.nibbles[i] = i;
  for (const int exponent : {1, 2, 100, 127, 128, 200, 254}) {
    block.exponent = static_cast<uint8_t>(exponent);
    const std::vector<float> values = read(block);
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(values[i], std::ldexp(kE2M1[i], exponent - 127)) << exponent << " " << i;
      EXPECT_EQ(values[16 + i], 0.0f);
    }
  }
}

TEST(Fp4, the_least_scale_is_not_zero) {
  BlockMXFP4 block{.exponent = 0, .nibbles = {7}};
  EXPECT_EQ(read(block)[0], std::ldexp(6.0f, -127));
}

TEST(Fp4, what_can_be_held_is_held_exactly) {
  std::vector<float> values(32);
  for (int i = 0; i < 32; ++i) values[i] = 0.25f * kE2M1[i % 16];
  EXPECT_EQ(read(rounded(values)), values);
  EXPECT_EQ(read(encoded(values)), values);
}

TEST(Fp4, zeros_tiny_and_huge_values_become_numbers) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  for (const float value : {0.0f, tiny, -tiny, 1e-38f, 1e37f, -3e37f}) {
    std::vector<float> values(32, value);
    for (const BlockMXFP4& block : {rounded(values), encoded(values)}) {
      EXPECT_NE(block.exponent, 255);
      for (const float out : read(block)) {
        EXPECT_TRUE(std::isfinite(out)) << value;
        if (std::fabs(value) > 1e18f) continue;  // its square overflows, so any close value passes
        EXPECT_LE(std::fabs(out - value), std::max(0.35f * std::fabs(value), 1e-37f)) << value;
      }
    }
  }
}

TEST(Fp4, a_search_loses_no_more_than_rounding_to_the_peak) {
  double rounding = 0, searching = 0;
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> values(32);
    for (float& value : values) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
      value *= value * value;
    }
    const std::vector<float> a = read(rounded(values)), b = read(encoded(values));
    double of_rounding = 0, of_search = 0;
    for (int i = 0; i < 32; ++i) {
      of_rounding += std::pow(a[i] - values[i], 2);
      of_search += std::pow(b[i] - values[i], 2);
    }
    EXPECT_LE(of_search, of_rounding * (1 + 1e-6));
    rounding += of_rounding;
    searching += of_search;
  }
  EXPECT_LT(searching, 0.99 * rounding);
}

// Four scales in E4M3: 1, 2, the least and the greatest.
constexpr BlockNVFP4 kNvBlock = {.scales = {0x38, 0x40, 1, 126}, .nibbles = {}};

std::vector<float> read(const BlockNVFP4& block) {
  std::vector<float> out(64);
  dequantize_row(ElementType::kNvFp4, reinterpret_cast<const std::byte*>(&block), out);
  return out;
}

TEST(NvFp4, sixteen_neighbours_share_a_scale_and_a_byte_holds_two_that_are_eight_apart) {
  BlockNVFP4 block = kNvBlock;
  for (int i = 0; i < 32; ++i) {
    block.nibbles[i] = static_cast<uint8_t>(i % 8 | (8 + i % 8) << 4);
  }
  constexpr float kScales[] = {1, 2, 0x1p-9f, 448};
  const std::vector<float> values = read(block);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(values[i], kScales[i / 16] * kE2M1[i % 16]) << i;
}

TEST(NvFp4, what_can_be_held_is_held_exactly) {
  std::vector<float> values(64);
  for (int i = 0; i < 64; ++i) values[i] = std::ldexp(kE2M1[i % 16], i / 16) * 0.875f;
  BlockNVFP4 plain, searched;
  quantize_row(ElementType::kNvFp4, values, reinterpret_cast<std::byte*>(&plain));
  encode_row(ElementType::kNvFp4, values, {}, reinterpret_cast<std::byte*>(&searched));
  EXPECT_EQ(read(plain), values);
  EXPECT_EQ(read(searched), values);
}

TEST(NvFp4, values_of_any_size_become_numbers) {
  for (const float value : {0.0f, 1e-42f, -1e-20f, 1e-3f, 2688.0f, -3e37f}) {
    const std::vector<float> values(64, value);
    for (const bool is_searched : {false, true}) {
      BlockNVFP4 block;
      auto* const bytes = reinterpret_cast<std::byte*>(&block);
      is_searched ? encode_row(ElementType::kNvFp4, values, {}, bytes)
                  : quantize_row(ElementType::kNvFp4, values, bytes);
      for (const uint8_t scale : block.scales) EXPECT_LE(scale, 126) << value;
      for (const float out : read(block)) {
        EXPECT_LE(std::fabs(out), std::max(1e-3f, 1.3f * std::fabs(value))) << value;
      }
    }
  }
}

}  // namespace
}  // namespace kvik
