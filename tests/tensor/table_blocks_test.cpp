#include "tensor/table_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/generated_bytes.h"
#include "tensor/blocks.h"
#include "tensor/element_type.h"
#include "tensor/half.h"

namespace kvik {
namespace {

using testing::generated_bytes;
using testing::hash_of;

struct Reference {
  ElementType type;
  uint64_t hash;  // of the values
};

// The hashes are of the f32 values that ik_llama.cpp (commit 8337e4cd) gives for these blocks. For
// iq6_k, it computes the levels from a polynomial in dequantize_row_iq6_k(), but quantizes and
// multiplies with the table that it is rounded to, so there is no hash.
TEST(TableBlocks, generated_blocks_have_the_values_of_another_implementation) {
  constexpr size_t kBlocks = 200;
  for (const auto& [type, hash] : {
           Reference{ElementType::kIQ2_K, 0x7e7297e3d4dd5d32u},
           Reference{ElementType::kIQ3_K, 0x9a8da8d8a2f929a0u},
           Reference{ElementType::kIQ4_K, 0x543772501d75c8bau},
           Reference{ElementType::kIQ5_K, 0x1632880567b823c9u},
           Reference{ElementType::kIQ4_KS, 0xf631ea87dd1887eeu},
           Reference{ElementType::kIQ4_KSS, 0xd736b5231076e38au},
           Reference{ElementType::kIQ5_KS, 0xf35a04fbb8d054c6u},
           Reference{ElementType::kIQ2_KS, 0xde37041b94cc3e21u},
           Reference{ElementType::kIQ3_KS, 0x3a0d1801f7bfc845u},
           Reference{ElementType::kIQ2_KL, 0x7d1add2ade94915bu},
       }) {
    const ElementTraits& t = traits(type);
    auto bytes = generated_bytes(t.row_header_bytes + kBlocks * t.block_bytes);
    if (t.row_header_bytes == sizeof(float)) {
      const float scale = 0.0125f;
      std::memcpy(bytes.data(), &scale, sizeof(scale));
    } else if (t.row_header_bytes > 0) {
      bytes[1] &= std::byte{0xbf};  // no infinity
    } else {
      for (size_t b = 0; b < kBlocks; ++b) bytes[b * t.block_bytes + 1] &= std::byte{0xbf};
    }
    std::vector<float> values(kBlocks * kBlock256);
    dequantize_row(type, bytes.data(), values);
    EXPECT_EQ(hash_of(std::as_bytes(std::span(values))), hash) << name_of(type);
  }
}

TEST(TableBlocks, a_hand_made_iq6_k_block_has_a_table_and_one_that_is_shifted) {
  BlockIQ6K block{};
  block.scale = f32_to_f16(0.5f);
  block.shifts = 1 << 3;  // values 48 to 63
  block.scales[0] = -2;
  block.scales[3] = 127;
  block.nibbles[0] = 15;          // value 0 in the low half, value 32 in the high half
  block.nibbles[31] = 15 << 4;    // value 63
  block.upper_bits[0] = 3;        // value 0
  block.upper_bits[31] = 3 << 2;  // value 63
  std::vector<float> out(256);
  dequantize_row(ElementType::kIQ6_K, reinterpret_cast<const std::byte*>(&block), out);
  EXPECT_EQ(out[0], 0.5f * -2 * 121);
  EXPECT_EQ(out[1], 0.5f * -2 * -127);
  EXPECT_EQ(out[63], 0.5f * 127 * (121 + 1));
  EXPECT_EQ(out[62], 0.5f * 127 * (-127 + 1));
  EXPECT_EQ(out[64], 0);
}

TEST(TableBlocks, blocks_that_are_read_and_written_again_have_the_same_bytes) {
  for (const BlockFormat& format : kTableBlocks) {
    const auto bytes = generated_bytes(50 * format.block.bytes);
    for (size_t at = 0; at < bytes.size(); at += format.block.bytes) {
      BlockNumbers numbers{};
      read_block(format, bytes.data() + at, numbers);
      std::vector<std::byte> again(format.block.bytes);
      format.block.write(numbers, again.data());
      ASSERT_EQ(std::memcmp(again.data(), bytes.data() + at, again.size()), 0)
          << name_of(format.type);
    }
  }
}

TEST(TableBlocks, tables_are_in_order_and_their_operands_fit_bytes) {
  for (const BlockFormat& format : kTableBlocks) {
    if (!format.table) continue;
    for (int i = 0; i < format.top; ++i) EXPECT_LT(format.table[i], format.table[i + 1]);
    EXPECT_GE(format.table[0], -127) << "AVX2 multiplies magnitudes of signed weights";
    EXPECT_LE(format.table[static_cast<int>(format.top)] + format.table_shift, 127);
  }
}

}  // namespace
}  // namespace kvik
