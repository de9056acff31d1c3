#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/element_type.h"

// The panels of q4_1, q5_0, q5_1, iq4_nl, iq4_xs, q2_k, q3_k and of integer groups: packed_matrix.h
// states the layout.
namespace kvik::cpu {

// Whether the type is one of these.
bool is_small_quant(ElementType type);

// Bytes that k of 32 columns take.
size_t small_panel_bytes(ElementType type, uint32_t k);

// One column's blocks into its place in a panel of zeros, and back to what they stand for.
void pack_small_quants(ElementType type, std::span<const std::byte> row, uint32_t column,
                       std::byte* panel);
void unpack_small_quants(ElementType type, const std::byte* panel, uint32_t column,
                         std::span<float> out);

}  // namespace kvik::cpu
