#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/low_rank_panels.h"
#include "tensor/element_enum.h"

// Low-rank products of the CPU backend, out += scale · b · (a · x), one table of kernels per
// instruction set. All tables give the same bits.
//
// The arithmetic of one row does not depend on other rows. For each piece of kLowRankPiece k there
// is a chain
//   part = fma(x[k], a[r][k], part), from part = 0, in ascending k.
// The parts are added in ascending order, sum = sum + part, starting with the first part. Then
//   h[r] = scale · sum, delta = fma(h[r], b[n][r], delta) from 0 in ascending r, out[n] += delta.
// Pieces allow several threads to share one row. Ranks and output columns are in lanes.
namespace kvik::cpu {

// Number of k in a piece.
inline constexpr uint32_t kLowRankPiece = 256;
inline constexpr uint32_t kLowRankRows = 8;  // maximum number of rows of a task

// Sums of some rows over whole pieces of k, stored separately for each piece or added up.
struct LowRankDownTask {
  const std::byte* a;     // [n_cols][padded rank] in `type`, starting at column `begin`
  ElementType type;       // f32, f16 or bf16
  uint32_t n_ranks;       // padded to a multiple of the lanes
  const float* const* x;  // each at column 0
  uint32_t n_rows;        // at most kLowRankRows
  uint32_t begin, end;    // columns; `begin` is a multiple of kLowRankPiece
  float* out;             // [n_rows][n_ranks] for the first piece
  size_t piece_stride;    // distance between the sums of two pieces; 0: pieces are added up
  // Data that this thread probably reads next, of the same size, for prefetching.
  const std::byte* ahead;
};

// Adds to some columns of out, from the sums of down tasks.
struct LowRankUpTask {
  const std::byte* b;  // panels of 16 columns of out, each [n_ranks][16] in `type`
  ElementType type;
  uint32_t n_ranks;  // not padded
  float scale;
  const float* sums;  // row r of chunk c: sums + (c · sum_rows + r) · sum_stride
  uint32_t n_chunks;  // chunks are added in ascending order
  uint32_t sum_rows, sum_stride;
  uint32_t n_rows;         // at most kLowRankRows
  float* const* out;       // each at the first column
  uint32_t n_columns;      // number of columns, starting at the first one
  float* scratch;          // [kLowRankRows][sum_stride], for this thread only
  const std::byte* ahead;  // as in LowRankDownTask
};

struct LowRankKernels {
  void (*down)(const LowRankDownTask& task);
  void (*up)(const LowRankUpTask& task);
};

namespace scalar {
extern const LowRankKernels kLowRankKernels;
}
namespace avx2 {
extern const LowRankKernels kLowRankKernels;
}
namespace avx512 {
extern const LowRankKernels kLowRankKernels;
}

}  // namespace kvik::cpu
