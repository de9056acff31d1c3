#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/hash.h"
#include "base/result.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A weight matrix in the form the backend computes with. The file's copy is no longer needed.
class PackedMatrix {
 public:
  virtual ~PackedMatrix() = default;
  virtual uint32_t n_rows() const = 0;  // output columns of a product with it
  virtual uint32_t n_cols() const = 0;  // the dimension summed over
  virtual size_t bytes() const = 0;
  // Digest of the tensors that it was packed from, in their order (tensor_digest.h).
  virtual Hash128 source_digest() const = 0;
};

// Rows of products with a matrix: one per token, per expert of a token, or per head.
enum class WeightUse : uint8_t { kRows, kExperts, kHeads };

// Weights that use the same kernel: their type and the dimension summed over.
struct WeightKind {
  ElementType type = ElementType::kF32;
  uint32_t n_cols = 0;
  WeightUse use = WeightUse::kRows;
  friend bool operator==(const WeightKind&, const WeightKind&) = default;
};

// Returns rows [first, first + n) of one of the matrices being packed, with its order of columns
// and scale; valid until the next call. Called in ascending order.
using ReadRows = std::function<Result<TensorView>(size_t matrix, uint64_t first, uint64_t n)>;

// A low-rank update of a matrix, scale · b · a, in host memory (Hu et al. 2021).
struct LowRankView {
  std::span<const float> a;  // [rank, n_cols]
  std::span<const float> b;  // [n_rows, rank]
  uint32_t n_rows = 0;
  uint32_t n_cols = 0;
  uint32_t rank = 0;
  float scale = 1.0f;
  ElementType type = ElementType::kF32;  // f32, f16 or bf16: type of the packed form
};

// A low-rank update in the form the backend computes with.
class LowRankMatrix {
 public:
  virtual ~LowRankMatrix() = default;
  virtual uint32_t n_rows() const = 0;  // output columns of a product with it
  virtual uint32_t n_cols() const = 0;  // the dimension summed over
  virtual uint32_t rank() const = 0;
};

// Rows that such a matrix applies to: row x_rows[i] of x, from x_column on, is multiplied, and
// added to row out_rows[i] of out, from out_column on.
struct LowRankTerm {
  const LowRankMatrix* matrix = nullptr;
  std::span<const uint32_t> x_rows, out_rows;
  uint32_t x_column = 0, out_column = 0;
};

}  // namespace kvik
