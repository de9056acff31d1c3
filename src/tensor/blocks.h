#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/element_type.h"

// The block formats of quantised tensors as they lie in files (ggml's layouts), and their plain
// definitions; those of 256 values stand in k_blocks.h and low_bit_blocks.h, groups of integers in
// group_blocks.h. These are the specification that packed kernels are tested against.
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

struct BlockQ4_1 {          // value = scale · nibble + minimum
  uint16_t scale, minimum;  // f16
  uint8_t nibbles[16];      // as in BlockQ4_0
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_0 {        // value = scale · (level − 16), level in 5 bits
  uint16_t scale;         // f16
  uint8_t fifth_bits[4];  // bit i of all 32: of element i
  uint8_t nibbles[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

struct BlockQ5_1 {          // value = scale · level + minimum, level in 5 bits
  uint16_t scale, minimum;  // f16
  uint8_t fifth_bits[4];
  uint8_t nibbles[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

struct BlockIQ4NL {  // value = scale · kIq4Levels[nibble]
  uint16_t scale;    // f16
  uint8_t nibbles[16];
};
static_assert(sizeof(BlockIQ4NL) == 18);

// The levels of iq4_nl and iq4_xs (ggml's kvalues_iq4nl), denser around zero.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// True where dequantize_row and the CPU backend know the type.
bool can_dequantize(ElementType type);

// One row, n = out.size() elements, a multiple of the block. bytes: traits(type) blocks of it.
void dequantize_row(ElementType type, const std::byte* bytes, std::span<float> out);

// The inverse, for the types of files; `out` holds whole blocks. Blocks of 32 by ggml's reference
// rounding, iq4_nl to the nearest level; for larger blocks see their headers.
void quantize_row(ElementType type, std::span<const float> values, std::byte* out);

}  // namespace kvik
