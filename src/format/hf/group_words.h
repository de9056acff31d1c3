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

// The words of one quantised matrix as its file holds them. With n_groups = ⌈n_cols / group⌉ and
// `per_word` = 32 / bits:
//
//   quants  kAlongInputs: [n_cols / per_word, n_rows]; kAlongOutputs: [n_cols, n_rows / per_word];
//           kRowByRow: [n_rows, n_cols / per_word]
//   zeros   [n_groups, ⌈n_rows / per_word⌉]
//   scales  [n_groups, n_rows] f16
//
// n_cols is a multiple of per_word and of the block of group_type(), and n_rows of per_word but in
// kRowByRow.
struct GroupWords {
  Quantization how;
  uint64_t n_rows;  // outputs
  uint64_t n_cols;  // inputs
  uint64_t group;   // columns that share a scale; the last group may have fewer
  std::span<const uint32_t> quants;
  std::span<const uint32_t> zeros;
  std::span<const uint16_t> scales;
};

// The type of integer groups whose blocks are wholly of one group each; none where there is none.
std::optional<ElementType> group_type(uint32_t bits, uint64_t group, uint64_t n_cols);

// TensorView::gather of a matrix whose column k is of group groups[k]: columns sorted by group.
// Empty where they are. Error: kCorrupt for a group that does not exist or that has more or fewer
// than its columns.
Result<std::vector<uint32_t>> order_by_group(std::span<const int32_t> groups, uint64_t group);

// Scales of f16, and what all of them are times.
struct GroupScales {
  std::vector<uint16_t> halves;
  float factor = 1;
};

// Finite scales of bf16. Where f16 does not reach that far they are under a power of two, and exact
// but for those that are less than 2^-32 of the largest.
GroupScales halves_of_bf16(std::span<const uint16_t> scales);

// The matrix [n_rows, n_cols] as blocks of group_type(), its columns in `order` (empty: as they
// are). out: the bytes of such a tensor.
void pack_groups(const GroupWords& words, std::span<const uint32_t> order, std::byte* out);

}  // namespace kvik::hf
