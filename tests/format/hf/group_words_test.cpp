// Words of GPTQ, AWQ and compressed-tensors files become blocks of integer groups.
#include "format/hf/group_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/tensor_view.h"

namespace kvik::hf {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint16_t kOne = 0x3c00, kHalf = 0x3800, kTwo = 0x4000;  // f16

Quantization gptq(uint32_t bits, uint32_t added_to_zeros) {
  Quantization how;
  how.bits = bits;
  how.added_to_zeros = added_to_zeros;
  return how;
}

Quantization awq() {
  Quantization how;
  how.packing = Quantization::Packing::kAlongOutputs;
  return how;
}

// Returns the matrix as floats, [n_rows][n_cols].
std::vector<std::vector<float>> values(const GroupWords& words,
                                       const std::vector<uint32_t>& order = {}) {
  const ElementType type = *group_type(words.how.bits, words.group, words.n_cols);
  const size_t row_bytes = *bytes_of(type, std::vector<uint64_t>{words.n_cols});
  std::vector<std::byte> bytes(words.n_rows * row_bytes);
  pack_groups(words, order, bytes.data());
  std::vector<std::vector<float>> rows(words.n_rows, std::vector<float>(words.n_cols));
  for (size_t r = 0; r < rows.size(); ++r) {
    dequantize_row(type, bytes.data() + r * row_bytes, rows[r]);
  }
  return rows;
}

TEST(GroupWords, eight_columns_of_a_row_are_a_word_of_gptq_the_first_one_lowest) {
  std::vector<uint32_t> quants(4 * 8);  // 32 columns, 8 rows
  quants[0 * 8 + 2] = 0x76543210;       // columns 0 to 7 of row 2
  quants[3 * 8 + 2] = 0xfedcba98;       // columns 24 to 31
  const uint32_t zeros[] = {0x00000000};
  const std::vector<uint16_t> scales = {kOne, kOne, kTwo, kOne, kOne, kOne, kOne, kHalf};
  const auto rows = values({gptq(4, 0), 8, 32, 32, quants, zeros, scales});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(rows[2][i], 2 * i);
    EXPECT_EQ(rows[2][24 + i], 2 * (8 + i));
    EXPECT_EQ(rows[2][8 + i], 0);
  }
  EXPECT_THAT(rows[1], Each(0));
}

TEST(GroupWords, zeros_that_are_stored_less_one_reach_sixteen) {
  const std::vector<uint32_t> quants(4 * 8);
  const uint32_t zeros[] = {0xf7654310};
  const std::vector<uint16_t> scales(8, kOne);
  const auto less = values({gptq(4, 1), 8, 32, 32, quants, zeros, scales});
  const auto plain = values({gptq(4, 0), 8, 32, 32, quants, zeros, scales});
  const float stored[] = {0, 1, 3, 4, 5, 6, 7, 15};
  for (int r = 0; r < 8; ++r) {
    EXPECT_THAT(less[r], Each(-(stored[r] + 1)));
    EXPECT_THAT(plain[r], Each(-stored[r]));
  }
}

TEST(GroupWords, eight_bits_are_four_to_a_word_and_their_zeros_reach_256) {
  std::vector<uint32_t> quants(8 * 4);  // 32 columns, 4 rows
  quants[1 * 4 + 3] = 0xff800100;       // columns 4 to 7 of row 3
  const uint32_t zeros[] = {0xff000201};
  const std::vector<uint16_t> scales(4, kOne);
  const auto rows = values({gptq(8, 1), 4, 32, 32, quants, zeros, scales});
  EXPECT_EQ(rows[0][0], -2);
  EXPECT_EQ(rows[1][0], -3);
  EXPECT_EQ(rows[3][0], -256);
  EXPECT_THAT(std::vector<float>(rows[3].begin() + 4, rows[3].begin() + 8),
              ElementsAre(-256, -255, -128, -1));
}

TEST(GroupWords, a_word_of_awq_is_of_eight_rows_the_even_ones_first) {
  std::vector<uint32_t> quants(32);       // 32 columns, 8 rows
  quants[5] = 0xfdb98642;                 // column 5: rows 0, 2, 4, 6, 1, 3, 5, 7 from the lowest
  const uint32_t zeros[] = {0x00000001};  // of row 0
  const std::vector<uint16_t> scales(8, kOne);
  const auto rows = values({awq(), 8, 32, 32, quants, zeros, scales});
  const float want[] = {2 - 1, 9, 4, 11, 6, 13, 8, 15};
  for (int r = 0; r < 8; ++r) EXPECT_EQ(rows[r][5], want[r]) << r;
  EXPECT_EQ(rows[0][4], -1);
}

TEST(GroupWords, rows_of_compressed_tensors_are_consecutive) {
  Quantization how;
  how.packing = Quantization::Packing::kRowByRow;
  std::vector<uint32_t> quants(3 * 8, 0x88888888);  // 3 rows of 64 columns
  quants[2 * 8 + 5] = 0x76543210;                   // columns 40 to 47 of row 2
  const uint32_t zeros[] = {0x00000888, 0x00000788};
  const std::vector<uint16_t> scales = {kOne, kOne, kHalf, kOne, kOne, kTwo};
  const auto rows = values({how, 3, 64, 32, quants, zeros, scales});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(rows[2][40 + i], 2 * (i - 7));
  EXPECT_EQ(rows[2][0], 0);
  EXPECT_EQ(rows[2][48], 2);
  EXPECT_THAT(rows[0], Each(0));
  EXPECT_THAT(rows[1], Each(0));
}

TEST(GroupWords, bf16_scales_beyond_f16_get_a_common_power_of_two) {
  const auto values_of = [](const GroupScales& scales) {
    std::vector<float> out;
    for (const uint16_t half : scales.halves) out.push_back(f16_to_f32(half) * scales.factor);
    return out;
  };
  const auto bits = [](std::vector<float> values) {
    std::vector<uint16_t> out;
    for (const float value : values) out.push_back(f32_to_bf16(value));
    return out;
  };
  const GroupScales plain = f16_scales_of(bits({0.0078125f, -1.0078125f, 0, 0x1.02p-17f}));
  EXPECT_EQ(plain.factor, 1);
  EXPECT_THAT(values_of(plain), ElementsAre(0.0078125f, -1.0078125f, 0, 0x1.02p-17f));
  const GroupScales faint = f16_scales_of(bits({0.0078125f, 0x1.02p-30f, 0}));
  EXPECT_NE(faint.factor, 1);
  EXPECT_THAT(values_of(faint), ElementsAre(0.0078125f, 0x1.02p-30f, 0));
  EXPECT_THAT(values_of(f16_scales_of(bits({0x1.fep127f, -0x1.02p100f}))),
              ElementsAre(0x1.fep127f, -0x1.02p100f));
  EXPECT_THAT(values_of(f16_scales_of(bits({0x1p-133f, 0x1p-130f}))),
              ElementsAre(0x1p-133f, 0x1p-130f));
}

TEST(GroupWords, a_group_is_as_many_blocks_as_it_needs_and_the_last_may_be_short) {
  EXPECT_EQ(group_type(4, 128, 4096), ElementType::kInt4G128);
  EXPECT_EQ(group_type(4, 4096, 4096), ElementType::kInt4G128);
  EXPECT_EQ(group_type(4, 160, 160), ElementType::kInt4G32);
  EXPECT_EQ(group_type(4, 128, 64), ElementType::kInt4G64);
  EXPECT_EQ(group_type(8, 64, 4096), ElementType::kInt8G32);
  EXPECT_EQ(group_type(8, 256, 4096), ElementType::kInt8G128);
  EXPECT_EQ(group_type(4, 16, 4096), std::nullopt);
  EXPECT_EQ(group_type(4, 32, 40), std::nullopt);

  const std::vector<uint32_t> quants(12 * 8, 0x11111111);  // 96 columns in groups of 64
  const std::vector<uint32_t> zeros(2);
  std::vector<uint16_t> scales(2 * 8, kOne);
  scales[8 + 1] = kTwo;  // row 1, second group
  const auto rows = values({gptq(4, 0), 8, 96, 64, quants, zeros, scales});
  EXPECT_EQ(rows[1][63], 1);
  EXPECT_EQ(rows[1][64], 2);
  EXPECT_EQ(rows[1][95], 2);
  EXPECT_EQ(rows[0][95], 1);
}

TEST(GroupWords, many_rows_with_permuted_columns_match_the_definition) {
  constexpr uint64_t kRows = 136, kCols = 192, kGroup = 64;
  std::mt19937 random(3);
  std::vector<uint32_t> quants(kCols / 8 * kRows), zeros(3 * kRows / 8);
  std::vector<uint16_t> scales(3 * kRows);
  for (uint32_t& word : quants) word = static_cast<uint32_t>(random());
  for (uint32_t& word : zeros) word = static_cast<uint32_t>(random());
  for (uint16_t& scale : scales) scale = random() % 2 != 0 ? kOne : kHalf;
  std::vector<int32_t> groups(kCols);
  for (size_t k = 0; k < kCols; ++k) groups[k] = static_cast<int32_t>(k % 3);
  const auto order = order_by_group(groups, kGroup);
  ASSERT_TRUE(order);
  const auto rows = values({gptq(4, 1), kRows, kCols, kGroup, quants, zeros, scales}, *order);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t j = 0; j < kCols; ++j) {
      const size_t k = (*order)[j];
      const size_t g = k % 3;
      const int quant = static_cast<int>(quants[k / 8 * kRows + r] >> k % 8 * 4 & 15);
      const int zero = static_cast<int>(zeros[(g * kRows + r) / 8] >> r % 8 * 4 & 15) + 1;
      const float scale = scales[g * kRows + r] == kOne ? 1.0f : 0.5f;
      ASSERT_EQ(rows[r][j], scale * static_cast<float>(quant - zero)) << r << ", " << j;
    }
  }
}

TEST(GroupWords, columns_are_sorted_by_group_and_keep_their_order_within) {
  EXPECT_THAT(*order_by_group(std::vector<int32_t>{1, 0, 1, 2, 0}, 2), ElementsAre(1, 4, 0, 2, 3));
  EXPECT_THAT(*order_by_group(std::vector<int32_t>{0, 0, 1, 1, 2}, 2), IsEmpty());
}

TEST(GroupWords, a_group_that_does_not_exist_or_is_too_full_is_refused) {
  const auto error = [](std::vector<int32_t> groups) {
    const auto order = order_by_group(groups, 2);
    return order ? "none" : order.error().message;
  };
  EXPECT_THAT(error({0, 0, 2, 1}), HasSubstr("column 2 into group 2, expected 0 to 1"));
  EXPECT_THAT(error({0, -1, 1, 1}), HasSubstr("column 1 into group -1"));
  EXPECT_THAT(error({0, 0, 1, 0}), HasSubstr("group 0 than its 2"));
  EXPECT_THAT(error({0, 2, 2, 1, 1}), HasSubstr("group 2 than its 1"));
}

}  // namespace
}  // namespace kvik::hf
