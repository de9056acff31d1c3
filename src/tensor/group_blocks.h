#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/element_type.h"

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
};
static_assert(sizeof(BlockInt4<32>) == 20);
static_assert(sizeof(BlockInt4<64>) == 36);
static_assert(sizeof(BlockInt4<128>) == 68);

template <uint32_t kGroup>
struct BlockInt8 {
  uint16_t scale;  // f16
  uint16_t zero;   // 0 … 256
  uint8_t quants[kGroup];
};
static_assert(sizeof(BlockInt8<32>) == 36);
static_assert(sizeof(BlockInt8<128>) == 132);

// Whether the type is one of these.
bool is_int_group(ElementType type);

// One row, a multiple of the block.
void dequantize_int_groups(ElementType type, const std::byte* bytes, std::span<float> out);

// To the nearest quant between a group's least and largest value, zero included.
void quantize_int_groups(ElementType type, std::span<const float> values, std::byte* out);

}  // namespace kvik
