#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"

// Low-rank products, out += scale · b · (a · x). The layouts are those of
// backend/cpu/low_rank/low_rank_kernels.h, and the arithmetic gives the same bits. All pointers are
// device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kLowRankPiece = 256;  // number of k that are summed separately
inline constexpr uint32_t kLowRankThreads = 128;

enum class LowRankType : uint32_t { kF32, kF16, kBF16 };

struct LowRankWeights {
  const uint8_t *a, *b;  // a: [n_cols][padded rank]; b: panels of 16 rows, [rank][16] each
  LowRankType type;
  uint32_t n_rows, n_cols, rank, padded_rank;
  float scale;
};

// A row, and the update that applies to it.
struct LowRankRow {
  LowRankWeights weights;
  const float* x;  // at the first column that is multiplied
  // At the first column that is added to.
  float* out;
};
static_assert(sizeof(LowRankRow) == 4 * sizeof(void*) + 6 * sizeof(uint32_t));

// sums[row][r] = scale · (a · x). Grid: [1, rows], kLowRankThreads.
struct DownTask {
  const LowRankRow* rows;
  uint32_t n_rows;
  float* sums;  // [n_rows, sum_stride]
  size_t sum_stride;
};

// out += b · sums. Grid: [pieces of kLowRankThreads columns, for the update with the most columns;
// rows], kLowRankThreads.
struct UpTask {
  const LowRankRow* rows;
  uint32_t n_rows;
  const float* sums;
  size_t sum_stride;
};

struct LowRankKernels {
  Kernel<DownTask> down;
  Kernel<UpTask> up;
};

extern const LowRankKernels kLowRankKernels;

}  // namespace kvik::cuda
