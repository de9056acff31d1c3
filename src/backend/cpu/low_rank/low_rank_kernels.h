#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/low_rank_panels.h"
#include "tensor/element_enum.h"

// Low-rank products of the CPU backend, out += scale · b · (a · x), one table per instruction set;
// all give the same bits.
//
// The arithmetic of one row, independent of other rows: for each piece of kLowRankPiece k a chain
//   part = fma(x[k], a[r][k], part), from part = 0, in ascending k,
// then the parts are added in ascending order, sum = sum + part from the first one on; then
//   h[r] = scale · sum, delta = fma(h[r], b[n][r], delta) from 0 in ascending r, out[n] += delta.
// Pieces let several threads share one row; ranks and output columns are in lanes.
namespace kvik::cpu {

inline constexpr uint32_t kLowRankPiece = 256;
inline constexpr uint32_t kLowRankRows = 8;  // of one task

// Sums of rows over whole pieces of k, each separately or added up.
struct LowRankDownTask {
  const std::byte* a;      // [n_cols][padded rank] of the type, starting at `begin`
  ElementType type;        // f32, f16 or bf16
  uint32_t n_ranks;        // padded: a multiple of the lanes
  const float* const* x;   // rows, at column 0
  uint32_t n_rows;         // ≤ kLowRankRows
  uint32_t begin, end;     // columns; `begin` is a multiple of kLowRankPiece
  float* out;              // [n_rows][n_ranks] of the first piece
  size_t piece_stride;     // distance between the sums of pieces; 0: they are added up
  const std::byte* ahead;  // data that this thread reads next, as much as of a; to be prefetched
};

// Columns of out, from the sums of down tasks.
struct LowRankUpTask {
  const std::byte* b;  // panels of 16 columns of out: [n_ranks][16] of the type each
  ElementType type;
  uint32_t n_ranks;  // not padded
  float scale;
  const float* sums;  // row r of chunk c: sums + (c · sum_rows + r) · sum_stride
  uint32_t n_chunks;  // added in ascending order
  uint32_t sum_rows, sum_stride;
  uint32_t n_rows;         // ≤ kLowRankRows
  float* const* out;       // rows, at the first column
  uint32_t n_columns;      // from the first one on
  float* scratch;          // [kLowRankRows][sum_stride] owned by this thread
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
