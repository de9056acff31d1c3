#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/model_source.h"

namespace kvik {

// What is done to the elements of a tensor that a file holds differently.
enum class Arrangement : uint8_t {
  kAsIs,
  kPairedRows,     // of each head, row i of the first half and of the second become 2i and 2i + 1
  kFloats,         // as f32
  kPairedFloats,   // as f32, and of each head as kPairedRows
  kFloatsPlusOne,  // as f32, and one added
  kNegativeExp,    // as f32, −e^x of it
  kMovedColumns,   // of each row, blocks of columns of one size in another order
  kTransposed,     // each piece a matrix of its own; as f16 where its elements stand in blocks
};

// A tensor put together from parts of other ones, the inputs, one after the other. Type, shape and
// bytes must agree.
struct ArrangedTensor {
  struct Piece {
    size_t tensor;  // of the inputs
    uint64_t begin_byte;
    uint64_t n_bytes;
  };

  TensorInfo info;
  std::vector<Piece> pieces;
  Arrangement arrangement = Arrangement::kAsIs;
  uint32_t head_dim =
      0;  // rows of a head, for kPairedRows, kPairedFloats; of a piece, for kTransposed
  std::vector<uint32_t> order = {};  // for kMovedColumns: which block comes where
  std::vector<float> values;         // where there are no pieces: all that the tensor is
  // A tensor of f32 of the inputs that becomes TensorSource::scales() of this one. Otherwise
  // each piece has those that are its own.
  std::optional<size_t> scales = {};
};

// Returns the tensor as it is.
ArrangedTensor as_it_is(const TensorSource& source, size_t index);

// [n, n_rows, n_cols] of n matrices of one shape and type. Otherwise which of them is none, or not
// like the first.
std::expected<ArrangedTensor, size_t> stack_of(const TensorSource& source, std::string name,
                                               std::span<const size_t> matrices);

// Adds a transform that makes these tensors out of the source's. Bytes that stay as they are are
// not copied.
void arrange(ModelSource& source, std::vector<ArrangedTensor> tensors);

}  // namespace kvik
