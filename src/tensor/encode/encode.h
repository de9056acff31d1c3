#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tensor/element_type.h"

// Quantizes tensors to block formats with as little error as a search finds. quantize_row() in
// blocks.h is the plain definition, for synthetic weights; the functions here are for real weights.
namespace kvik {

// Returns true for f32, f16, bf16, and block types whose format has a search
// (BlockFormat::encoding).
bool can_encode(ElementType type);

// Encodes one row of whole blocks of finite values. `importance` has the weight ≥ 0 of the squared
// error of each column; if it is empty, all columns have equal weight. out: the row's blocks. The
// result has the same bits on every processor.
void encode_row(ElementType type, std::span<const float> values, std::span<const float> importance,
                std::byte* out);

// Like encode_row() compiled for the instruction set "baseline" or "avx512", for tests. Returns
// false and writes nothing if the processor lacks it.
bool encode_row_with(std::string_view isa, ElementType type, std::span<const float> values,
                     std::span<const float> importance, std::byte* out);

}  // namespace kvik
