#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/element_type.h"

// The panels of the K types: packed_matrix.h states the layout.
namespace kvik::cpu {

// Whether the type is q4_k, q5_k or q6_k.
bool is_k_quant(ElementType type);

// Bytes that n_blocks super-blocks of 32 columns take.
size_t k_panel_bytes(ElementType type, uint32_t n_blocks);

// One column's super-blocks into its place in a panel of zeros, and back to what they stand for.
void pack_k_quants(ElementType type, std::span<const std::byte> row, uint32_t column,
                   std::byte* panel);
void unpack_k_quants(ElementType type, const std::byte* panel, uint32_t column,
                     std::span<float> out);

}  // namespace kvik::cpu
