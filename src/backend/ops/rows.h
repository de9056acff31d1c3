#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvik {

// A matrix of floats, [n_rows, n_cols], in the backend's memory. Row r begins at data + r · stride.
struct Rows {
  float* data = nullptr;
  uint32_t n_rows = 0;
  uint32_t n_cols = 0;
  uint32_t stride = 0;

  // Returns columns [first, first + count) of every row.
  Rows columns(uint32_t first, uint32_t count) const {
    return {data + first, n_rows, count, stride};
  }
  // Returns rows [first, first + count).
  Rows slice(uint32_t first, uint32_t count) const {
    return {data + size_t{first} * stride, count, n_cols, stride};
  }
};

// The same columns of every head of each row: those of head h are [first + h · step, first + h ·
// step + n_cols).
struct HeadRows {
  Rows rows;
  uint32_t n_heads = 0;
  uint32_t step = 0;
  uint32_t first = 0;
  uint32_t n_cols = 0;
};

// cos and sin of each row's RoPE angles, [n_rows, n_pairs] each, in the backend's memory.
struct RopeAngles {
  const float* cos = nullptr;
  const float* sin = nullptr;
  // 2 · n_pairs dimensions of a head are rotated; the others stay as they are
  uint32_t n_pairs = 0;
};

// Weights of n residual streams from a projection of them to [pre, post, mix] (manifold-constrained
// hyper-connections, Xie et al. 2026), each part multiplied by its scale and added to its base:
//
//   pre  = sigmoid(pre) + eps       [n], with which a half of a layer reads the streams
//   post = 2 · sigmoid(post)        [n], with which its output is added to them
//   mix  = softmax(mix) + eps       [n, n], row i: of old stream i in each new one
//
// Then the columns of mix are divided by their sums + eps, and n_iterations − 1 times its rows and
// its columns (Sinkhorn and Knopp 1967). The result has mix transposed: row j has the weights of
// all old streams in new stream j. Without iterations, the projection is pre alone.
inline constexpr uint32_t kMaxStreams = 16;
struct StreamWeightShape {
  uint32_t n = 0;  // at most kMaxStreams
  uint32_t n_iterations = 0;
  float eps = 0;
  std::span<const float> base;    // [(2 + n) · n] or [n], on the host
  std::span<const float> scales;  // [3] or [1], on the host

  uint32_t n_cols() const { return n_iterations > 0 ? (2 + n) * n : n; }
};

// Basis in which quantized pages store K and V. It is chosen so that no dimension is much larger
// than others with the same scale: x minus a center, times a factor, then rotated by a Hadamard
// matrix. Attention gives the same result in any basis, because queries use the inverse factors.
enum class HeadRotation : uint8_t { kNone, kForward, kBack };
struct HeadBasis {
  uint32_t head_dim = 0;
  uint32_t group = 1;  // adjacent heads with the same centers and factors
  // [heads / group, head_dim] each, in the backend's memory
  const float* centers = nullptr;  // null: zero
  const float* factors = nullptr;  // null: one
  HeadRotation rotation = HeadRotation::kNone;
};

}  // namespace kvik
