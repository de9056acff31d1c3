#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tensor/element_type.h"

// Tensors into the block formats with as little error as a search finds. quantize_row() in blocks.h
// is the plain definition, for weights that are made up; this is for weights that matter.
namespace kvik {

// True for f32, f16, bf16, and the block types whose format has a search (BlockFormat::encoding).
bool can_encode(ElementType type);

// One row of whole blocks of finite values. `importance` has one number ≥ 0 for each column, how
// much the squared error there counts, or is empty: all count alike. out: traits(type) blocks. The
// same bits on every processor.
void encode_row(ElementType type, std::span<const float> values, std::span<const float> importance,
                std::byte* out);

// The same as it is compiled for an instruction set, "baseline" or "avx512", for tests. False where
// the processor lacks it, and nothing is written.
bool encode_row_with(std::string_view isa, ElementType type, std::span<const float> values,
                     std::span<const float> importance, std::byte* out);

}  // namespace kvik
