#pragma once

#include "tensor/block_format.h"
#include "tensor/packed_bytes.h"
#include "tensor/round.h"

// Groups of integers with a common scale and zero point, as written by GPTQ and AWQ (Frantar et al.
// 2022, Lin et al. 2023), in their in-memory form: each block is a group within a row, along the
// dimension summed over. Rows are output columns.
//
// value = scale · (quant − zero)
//
// A group in the file that is larger than the largest block (128), such as a whole row, becomes
// several blocks with equal scale and zero point; groups of 8 bits become blocks of 32 or 128. If
// the file orders k by activation (g_idx), the columns are sorted by group, and TensorView::gather
// has the input of each column.
namespace kvik {

template <uint32_t kGroup>
struct BlockInt4 {
  uint16_t scale;               // f16
  uint8_t zero;                 // 0 … 16
  uint8_t unused;               // 0
  uint8_t nibbles[kGroup / 2];  // each 32 elements as in BlockQ4_0: i low, i + 16 high

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.zero, numbers.zero);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 16});
  }
};
static_assert(sizeof(BlockInt4<32>) == 20);
static_assert(sizeof(BlockInt4<64>) == 36);
static_assert(sizeof(BlockInt4<128>) == 68);

template <uint32_t kGroup>
struct BlockInt8 {
  uint16_t scale;  // f16
  uint16_t zero;   // 0 … 256
  uint8_t quants[kGroup];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.zero, numbers.zero);
    io.bytes(block.quants, numbers.levels);
  }
};
static_assert(sizeof(BlockInt8<32>) == 36);
static_assert(sizeof(BlockInt8<128>) == 132);

inline constexpr BlockFormat kGroups[] = {
    {.type = ElementType::kInt4G32,
     .block = access_to<BlockInt4<32>>,
     .top = 15,
     .round = round_group,
     .packed = {.bytes = kOffset, .level_bits = {4}}},
    {.type = ElementType::kInt4G64,
     .block = access_to<BlockInt4<64>>,
     .top = 15,
     .round = round_group,
     .packed = {.bytes = kOffset, .level_bits = {4}}},
    {.type = ElementType::kInt4G128,
     .block = access_to<BlockInt4<128>>,
     .top = 15,
     .round = round_group,
     .packed = {.bytes = kOffset, .level_bits = {4}}},
    {.type = ElementType::kInt8G32,
     .block = access_to<BlockInt8<32>>,
     .top = 255,
     .round = round_group,
     .packed = {.n_halves = 2,
                .level_bits = {8},
                .to_panel = zero_to_offset,
                .from_panel = offset_to_zero}},
    {.type = ElementType::kInt8G128,
     .block = access_to<BlockInt8<128>>,
     .top = 255,
     .round = round_group,
     .packed = {.n_halves = 2,
                .level_bits = {8},
                .to_panel = zero_to_offset,
                .from_panel = offset_to_zero}},
};

}  // namespace kvik
