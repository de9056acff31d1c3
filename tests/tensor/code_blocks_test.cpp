#include "tensor/code_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/generated_bytes.h"
#include "tensor/blocks.h"
#include "tensor/element_type.h"

namespace kvik {
namespace {

using testing::generated_bytes;
using testing::hash_of;

struct Reference {
  ElementType type;
  size_t scale_at;  // offset of the byte with the highest bits of the block's scale
  uint64_t hash;    // of the values
};

// The hashes are of the f32 values that the package gguf 0.19 gives for these blocks.
TEST(CodeBlocks, generated_blocks_have_the_values_of_another_implementation) {
  constexpr size_t kBlocks = 200;
  for (const auto& [type, scale_at, hash] : {
           Reference{ElementType::kIQ3_XXS, 1, 0x559caff53f2ecfe6u},
           Reference{ElementType::kIQ3_S, 1, 0x1a9994c306f1e143u},
           Reference{ElementType::kIQ2_XXS, 1, 0x746fad1504529b30u},
           Reference{ElementType::kIQ2_XS, 1, 0x1155247bd5b8ebfeu},
           Reference{ElementType::kIQ2_S, 1, 0x54c4b3ec6977de8du},
           Reference{ElementType::kIQ1_S, 1, 0xd52b9e9ab2792103u},
           Reference{ElementType::kIQ1_M, 55, 0x08aedb31021d9b28u},
           Reference{ElementType::kTQ1_0, 53, 0x272a8b8b14d305aau},
           Reference{ElementType::kTQ2_0, 65, 0xcac9b1ac7d689b7du},
       }) {
    const size_t block_bytes = traits(type).block_bytes;
    auto bytes = generated_bytes(kBlocks * block_bytes);
    for (size_t b = 0; b < kBlocks; ++b) {  // no infinities
      bytes[b * block_bytes + scale_at] &= std::byte{0xbf};
    }
    std::vector<float> values(kBlocks * kBlock256);
    dequantize_row(type, bytes.data(), values);
    EXPECT_EQ(hash_of(std::as_bytes(std::span(values))), hash) << name_of(type);
  }
}

TEST(CodeBlocks, a_hand_made_iq3_xxs_block_has_the_eighth_sign_by_parity) {
  BlockIQ3XXS block{};
  block.scale = f32_to_f16(2.0f);
  block.codes[0] = 1;                  // the second point: 12, 4, 4, 12
  block.of[0].bytes[0] = 0b0000'0001;  // the first value is negative, so the eighth is, too
  block.of[0].bytes[3] = 3 << 4;       // s
  std::vector<float> out(256);
  dequantize_row(ElementType::kIQ3_XXS, reinterpret_cast<const std::byte*>(&block), out);
  const float step = 2.0f / 4 * (2 * 3 + 1);
  const int levels = kIq3XxsGrid.levels[1][0] - 128;
  EXPECT_EQ(out[0], -step * static_cast<float>(levels));
  EXPECT_EQ(out[7], -step * 4);
  EXPECT_EQ(out[6], step * 4);
  EXPECT_EQ(out[32], 2.0f / 4 * 4);  // the next sub-block: s is 0
}

TEST(CodeBlocks, blocks_that_are_read_and_written_again_have_the_same_bytes) {
  for (const BlockFormat& format : kCodeBlocks) {
    if (format.type == ElementType::kTQ1_0) continue;  // some bytes are not sums of digits
    const auto bytes = generated_bytes(50 * format.block.bytes);
    for (size_t at = 0; at < bytes.size(); at += format.block.bytes) {
      BlockNumbers numbers;
      read_block(format, bytes.data() + at, numbers);
      std::vector<std::byte> again(format.block.bytes);
      format.block.write(numbers, again.data());
      ASSERT_EQ(std::memcmp(again.data(), bytes.data() + at, again.size()), 0)
          << name_of(format.type);
    }
  }
}

TEST(CodeBlocks, five_digits_of_base_three_are_a_byte) {
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7 % 3) - 1.0f;
  std::vector<std::byte> block(sizeof(BlockTQ1));
  quantize_row(ElementType::kTQ1_0, values, block.data());
  std::vector<float> out(256);
  dequantize_row(ElementType::kTQ1_0, block.data(), out);
  EXPECT_EQ(out, values);
}

TEST(CodeBlocks, values_of_points_survive_rounding) {
  for (const BlockFormat& format : kCodeBlocks) {
    if (!format.codebook.levels || format.codebook.signs != CodeSigns::kAny) continue;
    std::vector<std::byte> block(format.block.bytes), again(format.block.bytes);
    BlockNumbers numbers{};
    numbers.scale = f32_to_f16(1.0f);
    for (size_t i = 0; i < kBlock256 / format.codebook.n_values; ++i) {
      numbers.codes[i] = static_cast<uint16_t>(format.codebook.n_points - 1 - i);
    }
    for (size_t s = 0; s < 16; ++s) numbers.factors[s] = 31;
    for (size_t i = 0; i < 32; ++i) numbers.signs[i] = static_cast<uint8_t>(37 * i);
    format.block.write(numbers, block.data());
    std::vector<float> values(256), out(256);
    dequantize_row(format.type, block.data(), values);
    quantize_row(format.type, values, again.data());
    dequantize_row(format.type, again.data(), out);
    double error = 0, energy = 0;
    for (size_t i = 0; i < 256; ++i) {
      error += (out[i] - values[i]) * (out[i] - values[i]);
      energy += values[i] * values[i];
    }
    EXPECT_LT(error, 0.02 * energy) << name_of(format.type);
  }
}

}  // namespace
}  // namespace kvik
