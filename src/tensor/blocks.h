#pragma once

#include <cstddef>
#include <span>

#include "tensor/element_type.h"

// Rows of tensors to and from f32, by the formats of blocks_32.h, k_blocks.h, group_blocks.h and
// float_blocks.h. These are the specification that packed kernels are tested against.
namespace kvik {

// True where dequantize_row and the CPU backend know the type.
bool can_dequantize(ElementType type);

// One row, n = out.size() elements, a multiple of the block. bytes: traits(type) blocks of it.
void dequantize_row(ElementType type, const std::byte* bytes, std::span<float> out);

// The inverse, for the types of files, groups of integers and floats of 8 bits; `out` holds whole
// blocks. The plain definition (round.h): encode_row() loses less.
void quantize_row(ElementType type, std::span<const float> values, std::byte* out);

}  // namespace kvik
