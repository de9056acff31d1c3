#pragma once

#include "tensor/block_format.h"
#include "tensor/packed_bytes.h"
#include "tensor/round.h"

// Groups of integers that share a scale and a zero, as GPTQ and AWQ make them (Frantar et al. 2022,
// Lin et al. 2023), in the form that a tensor takes in memory once its file is read: blocks of a
// group along a row, that is along the dimension summed over. Rows are output columns.
//
//   value = scale · (quant − zero)
//
// A group of the file that is larger than the largest block (128), such as a whole row, is several
// blocks with the same scale and zero; groups of 8 bits are blocks of 32 or of 128. Where the file
// orders k by activation (g_idx), k is sorted by group and TensorView::gather names each column's
// place in the activations.
namespace kvik {

template <uint32_t kGroup>
struct BlockInt4 {
  uint16_t scale;               // f16
  uint8_t zero;                 // 0 … 16
  uint8_t unused;               // 0
  uint8_t nibbles[kGroup / 2];  // of each 32 elements as in BlockQ4_0: i low, i + 16 high

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
