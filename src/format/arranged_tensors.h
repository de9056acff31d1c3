#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/model_source.h"

namespace kvik {

// Transformation of the elements of a tensor that a file stores differently.
enum class Arrangement : uint8_t {
  kAsIs,
  kPairedRows,       // rows i of the first and second half of each head become 2i and 2i + 1
  kFloats,           // converted to f32
  kPairedFloats,     // converted to f32, and kPairedRows
  kFloatsPlusOne,    // converted to f32, plus one
  kNegativeExp,      // converted to f32, −e^x
  kExp,              // converted to f32, e^x
  kReciprocalExp,    // converted to f32, e^−x
  kInt32,            // converted from i64 to i32
  kPermutedColumns,  // permutes blocks of columns of equal size
  kTransposed,       // transposes each piece; to f16 if its elements are in blocks
};

// A tensor concatenated from parts of other tensors, the inputs. `info` must have the type, shape
// and size that result from the pieces.
struct ArrangedTensor {
  struct Piece {
    size_t tensor;  // index of the input
    uint64_t begin_byte;
    uint64_t n_bytes;
    bool keeps_rows = false;  // its rows are not rearranged
  };

  TensorInfo info;
  std::vector<Piece> pieces;
  Arrangement arrangement = Arrangement::kAsIs;
  // The pieces are whole rows of a table that may be larger than memory: only the wanted ones are
  // read. With kAsIs only, and pieces without scales and in the order of columns.
  bool is_joined = false;
  // Rows of a head for kPairedRows and kPairedFloats, rows of a piece for kTransposed.
  uint32_t head_dim = 0;
  uint64_t row_floats = 1;           // of a row, for kPairedFloats
  uint64_t n_zeros = 0;              // floats before the first piece, for conversions to f32
  std::vector<uint32_t> order = {};  // source of each block, for kPermutedColumns
  std::vector<float> values;         // the whole contents if there are no pieces
  // An f32 input that becomes TensorSource::scales() of this tensor; otherwise the pieces keep
  // their own.
  std::optional<size_t> scales = {};
};

// Returns the tensor unchanged.
ArrangedTensor unchanged_tensor(const TensorSource& source, size_t index);

// Returns the stack [n, n_rows, n_cols] of n matrices of equal shape and type; otherwise the index
// in `matrices` of the first one that is not a matrix or differs from the others.
std::expected<ArrangedTensor, size_t> stack_of(const TensorSource& source, std::string name,
                                               std::span<const size_t> matrices);

// Adds a transform that makes these tensors from those of the source. Unchanged bytes are not
// copied.
void arrange(ModelSource& source, std::vector<ArrangedTensor> tensors);

}  // namespace kvik
