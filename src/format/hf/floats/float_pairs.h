#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "format/hf/floats/block_floats.h"
#include "format/model_source.h"
#include "format/tensor_transform.h"

namespace kvik::hf {

inline constexpr uint64_t kNvFp4Columns = 16, kMxFp4Columns = 32;  // per scale

// The tensors beside an input that has the elements of a matrix, or of a stack of matrices.
struct FloatMatrix {
  BlockFloats::Kind kind = BlockFloats::Kind::kFp8;
  std::optional<size_t> scales = {};  // std::nullopt: the tensor is unchanged
  std::optional<size_t> scale = {};   // scale of the whole matrix, for kNvFp4
};

// The outputs of join_block_floats() and what each is made of.
struct FloatPairs {
  std::vector<FloatMatrix> tensors;
  std::vector<TensorTransform::Output> outputs;
};

// Finds the scales of each matrix, and checks their shapes. Errors: those of join_block_floats().
Result<FloatPairs> pair_floats(const ModelSource& source, const BlockFloats& how);

// Returns the number of matrices of a matrix or a stack.
uint64_t n_matrices(const TensorInfo& info);
// Returns the number of blocks of `of` elements that n elements fill, the last one perhaps in part.
uint64_t n_blocks_of(uint64_t n, uint64_t of);

}  // namespace kvik::hf
