#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/element_type.h"

// The block formats of quantised tensors as they lie in files (ggml's layouts), and their plain
// definitions; those of the K types stand in k_blocks.h. These are the specification that packed
// kernels are tested against.
namespace kvik {

inline constexpr uint32_t kBlock32 = 32;

struct BlockQ8_0 {  // value = scale · quants[i]
  uint16_t scale;   // f16
  int8_t quants[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

struct BlockQ4_0 {      // value = scale · (nibble − 8)
  uint16_t scale;       // f16
  uint8_t nibbles[16];  // element i in the low half of byte i, element i + 16 in the high half
};
static_assert(sizeof(BlockQ4_0) == 18);

// True where dequantize_row and the CPU backend know the type.
bool can_dequantize(ElementType type);

// One row, n = out.size() elements, a multiple of the block. bytes: traits(type) blocks of it.
void dequantize_row(ElementType type, const std::byte* bytes, std::span<float> out);

// The inverse, for the same types; `out` holds whole blocks. F32 to Q4_0 by ggml's reference
// rounding, the K types (k_blocks.h) by a search of our own.
void quantize_row(ElementType type, std::span<const float> values, std::byte* out);

}  // namespace kvik
