#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tensor/element_type.h"

// Conversion of tensor rows to and from f32 by the formats of blocks_32.h, k_blocks.h,
// group_blocks.h and float_blocks.h: the specification that packed kernels are tested against.
namespace kvik {

// Returns whether dequantize_row() and the CPU backend support the type.
bool can_dequantize(ElementType type);

// Dequantizes one row of out.size() elements, a multiple of the block size. bytes: the blocks of
// the row.
void dequantize_row(ElementType type, const std::byte* bytes, std::span<float> out);

// Returns a scale in the blocks that is not a number (BlockFormat::scale_bytes), if there is one.
std::optional<uint8_t> invalid_scale(ElementType type, std::span<const std::byte> blocks);

// Quantizes one row of whole blocks. Supports all types of dequantize_row(). Rounds by the plain
// definition (round.h); encode_row() has less error.
void quantize_row(ElementType type, std::span<const float> values, std::byte* out);

}  // namespace kvik
