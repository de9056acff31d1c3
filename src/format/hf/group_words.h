#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/hf/quantization.h"
#include "tensor/element_type.h"

namespace kvik::hf {

// Packed words of a quantized matrix as in its file. With n_groups = ⌈n_cols / group⌉ and
// `per_word` = 32 / bits:
//
//   quants  kAlongInputs: [n_cols / per_word, n_rows]; kAlongOutputs: [n_cols, n_rows / per_word];
//           kRowByRow: [n_rows, n_cols / per_word]
//   zeros   [n_groups, ⌈n_rows / per_word⌉]
//   scales  [n_groups, n_rows] f16
//
// n_cols is a multiple of per_word and of the block of group_type(); n_rows is a multiple of
// per_word, except for kRowByRow.
struct GroupWords {
  Quantization how;
  uint64_t n_rows;  // outputs
  uint64_t n_cols;  // inputs
  uint64_t group;   // columns that share a scale; the last group may have fewer
  std::span<const uint32_t> quants;
  std::span<const uint32_t> zeros;
  std::span<const uint16_t> scales;
};

// Returns the element type with the largest blocks that lie within one group each; std::nullopt if
// there is none.
std::optional<ElementType> group_type(uint32_t bits, uint64_t group, uint64_t n_cols);

// Returns TensorView::gather of a matrix whose column k belongs to group groups[k]: columns sorted
// by group. Empty if they are sorted already. Errors: kCorrupt for a group that does not exist or
// has the wrong number of columns.
Result<std::vector<uint32_t>> order_by_group(std::span<const int32_t> groups, uint64_t group);

// f16 scales and a common factor.
struct GroupScales {
  std::vector<uint16_t> halves;
  float factor = 1;
};

// Converts finite bf16 scales. If f16 cannot represent all of them exactly, a power of two becomes
// the common factor. The result is exact except for scales less than 2^-32 of the largest.
GroupScales f16_scales_of(std::span<const uint16_t> scales);

// Packs the matrix [n_rows, n_cols] to blocks of group_type(), with columns in `order` (empty:
// unchanged). out: the bytes of the tensor.
void pack_groups(const GroupWords& words, std::span<const uint32_t> order, std::byte* out);

}  // namespace kvik::hf
