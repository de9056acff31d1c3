#pragma once

#include <cstddef>
#include <cstdint>

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
