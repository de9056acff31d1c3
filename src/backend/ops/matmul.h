#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/hash.h"
#include "base/result.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A weight matrix in the backend's own layout. The file's copy is not needed afterwards.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual uint32_t n_rows() const = 0;  // output columns of a product with this matrix
  virtual uint32_t n_cols() const = 0;  // the dimension summed over
  virtual size_t bytes() const = 0;
  // Returns the digest of the tensors that the matrix was packed from, in order (tensor_digest.h).
  virtual Hash128 source_digest() const = 0;
};

// Use of a matrix, which determines the number of rows that are multiplied by it: one row per
// token, per selected expert of a token, or per head of a token.
enum class WeightUse : uint8_t { kRows, kExperts, kHeads };

// Weights that are multiplied by the same kernel.
struct WeightKind {
  ElementType type = ElementType::kF32;
  // The dimension summed over.
  uint32_t n_cols = 0;
  WeightUse use = WeightUse::kRows;
  friend bool operator==(const WeightKind&, const WeightKind&) = default;
};

// Returns rows [first, first + n) of matrix `matrix` of those being packed, with its column order
// and scale. The view is valid until the next call. Rows of a matrix are read in ascending order.
using ReadRows = std::function<Result<TensorView>(size_t matrix, uint64_t first, uint64_t n)>;

// A low-rank update of a matrix (LoRA), scale · b · a, in host memory (Hu et al. 2021).
struct LowRankView {
  std::span<const float> a;  // [rank, n_cols]
  std::span<const float> b;  // [n_rows, rank]
  uint32_t n_rows = 0;
  uint32_t n_cols = 0;
  uint32_t rank = 0;
  float scale = 1.0f;
  ElementType type = ElementType::kF32;  // type of the packed form: f32, f16 or bf16
};

// A low-rank update in the backend's own layout.
class LowRankMatrix {
 public:
  virtual ~LowRankMatrix() = default;
  virtual uint32_t n_rows() const = 0;  // output columns of a product with the update
  virtual uint32_t n_cols() const = 0;  // the dimension summed over
  virtual uint32_t rank() const = 0;
};

// Rows to which a low-rank update applies. Row x_rows[i] of x, from x_column on, is multiplied, and
// the product is added to row out_rows[i] of out, from out_column on.
struct LowRankTerm {
  const LowRankMatrix* matrix = nullptr;
  std::span<const uint32_t> x_rows, out_rows;
  uint32_t x_column = 0, out_column = 0;
};

}  // namespace kvik
