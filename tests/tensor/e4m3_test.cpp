#include "tensor/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tensor/blocks.h"
#include "tensor/float_blocks.h"

namespace kvik {
namespace {

// The definition, in the words of the paper.
double number_of(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 3 & 15);
  const int fraction = static_cast<int>(bits & 7);
  const double size =
      exponent == 0 ? std::ldexp(fraction / 8.0, -6) : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return (bits & 128) != 0 ? -size : size;
}

TEST(E4m3, all_but_two_of_the_bytes_are_the_numbers_of_the_paper) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    if ((bits & 127) == 127) {
      EXPECT_FALSE(is_e4m3_number(byte));
      EXPECT_TRUE(std::isnan(e4m3_to_f32(byte)));
      EXPECT_FALSE(is_e4m3_number(f32_to_e4m3(e4m3_to_f32(byte))));
      continue;
    }
    EXPECT_TRUE(is_e4m3_number(byte));
    EXPECT_EQ(e4m3_to_f32(byte), number_of(bits)) << bits;
    EXPECT_EQ(std::signbit(e4m3_to_f32(byte)), bits >= 128) << bits;
    EXPECT_EQ(f32_to_e4m3(e4m3_to_f32(byte)), byte);
  }
  EXPECT_EQ(e4m3_to_f32(0x7e), kLargestE4m3);
}

TEST(E4m3, what_lies_between_two_numbers_becomes_the_nearer_one_or_the_even_one) {
  for (uint8_t bits = 0; bits < 0x7e; ++bits) {
    const float low = e4m3_to_f32(bits);
    const float high = e4m3_to_f32(bits + 1);
    const float middle = (low + high) / 2;
    const uint8_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const uint8_t top = sign < 0 ? 128 : 0;
      EXPECT_EQ(f32_to_e4m3(sign * std::nextafter(middle, 0.0f)), top | bits) << int{bits};
      EXPECT_EQ(f32_to_e4m3(sign * middle), top | even) << int{bits};
      EXPECT_EQ(f32_to_e4m3(sign * std::nextafter(middle, 1e9f)), top | (bits + 1)) << int{bits};
    }
  }
}

TEST(E4m3, what_is_larger_than_the_largest_number_becomes_it) {
  for (const float value : {449.0f, 480.0f, 1e9f, INFINITY}) {
    EXPECT_EQ(f32_to_e4m3(value), 0x7e);
    EXPECT_EQ(f32_to_e4m3(-value), 0xfe);
  }
}

template <uint32_t kColumns>
void test_rows(ElementType type) {
  BlockFp8<kColumns> blocks[2] = {{0.37f, {}}, {-3e-5f, {}}};
  for (uint32_t i = 0; i < kColumns; ++i) {
    blocks[0].numbers[i] = static_cast<uint8_t>(i % 127);
    blocks[1].numbers[i] = static_cast<uint8_t>(128 + i % 127);
  }
  std::vector<float> out(2 * kColumns);
  dequantize_row(type, reinterpret_cast<const std::byte*>(blocks), out);
  for (uint32_t i = 0; i < kColumns; ++i) {
    EXPECT_EQ(out[i], 0.37f * e4m3_to_f32(blocks[0].numbers[i]));
    EXPECT_EQ(out[kColumns + i], -3e-5f * e4m3_to_f32(blocks[1].numbers[i]));
  }
}

TEST(Fp8, a_block_is_a_scale_times_its_numbers) {
  test_rows<128>(ElementType::kFp8);
  test_rows<32>(ElementType::kFp8G32);
}

TEST(Fp8, rounding_puts_the_peak_on_the_largest_number_and_leaves_zeros) {
  std::vector<float> values(256, 0.0f);
  for (int i = 0; i < 128; ++i) values[i] = static_cast<float>(i - 90);
  BlockFp8<128> blocks[2];
  quantize_row(ElementType::kFp8, values, reinterpret_cast<std::byte*>(blocks));
  EXPECT_EQ(blocks[0].scale, 90.0f / 448.0f);
  EXPECT_EQ(blocks[0].numbers[0], 0xfe);
  std::vector<float> got(256);
  dequantize_row(ElementType::kFp8, reinterpret_cast<const std::byte*>(blocks), got);
  for (int i = 0; i < 128; ++i) EXPECT_NEAR(got[i], values[i], std::fabs(values[i]) / 15) << i;
  for (int i = 128; i < 256; ++i) EXPECT_EQ(got[i], 0.0f);
}

}  // namespace
}  // namespace kvik
