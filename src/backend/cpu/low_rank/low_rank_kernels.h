#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/low_rank_panels.h"
#include "tensor/element_enum.h"

// Products of low rank of the CPU backend, out += scale · b · (a · x), one table per instruction
// set; all give the same bits.
//
// The arithmetic of one row, whatever its company: of each piece of kLowRankPiece k a chain
//   part = fma(x[k], a[r][k], part), from part = 0, in ascending k,
// then the parts are added in ascending order, sum = sum + part from the first one on; then
//   h[r] = scale · sum, delta = fma(h[r], b[n][r], delta) from 0 in ascending r, out[n] += delta.
// Pieces let several threads share one row; ranks and columns of out sit in lanes.
namespace kvik::cpu {

inline constexpr uint32_t kLowRankPiece = 256;
inline constexpr uint32_t kLowRankRows = 8;  // of one task

// Sums of some rows over whole pieces of k, each by itself or all of them.
struct LowRankDownTask {
  const std::byte* a;      // [n_cols][padded rank] of the type, from `begin` on
  ElementType type;        // f32, f16 or bf16
  uint32_t n_ranks;        // padded: a multiple of the lanes
  const float* const* x;   // rows, at column 0
  uint32_t n_rows;         // ≤ kLowRankRows
  uint32_t begin, end;     // columns; `begin` is a multiple of kLowRankPiece
  float* out;              // [n_rows][n_ranks] of the first piece
  size_t piece_stride;     // from one piece's sums to the next one's; 0: they are added up
  const std::byte* ahead;  // what this thread reads next, as much as of a; to be prefetched
};

// Some columns of out, from the sums of down tasks.
struct LowRankUpTask {
  const std::byte* b;  // panels of 16 columns of out: [n_ranks][16] of the type each
  ElementType type;
  uint32_t n_ranks;  // not padded
  float scale;
  const float* sums;  // row r of chunk c: sums + (c · sum_rows + r) · sum_stride
  uint32_t n_chunks;  // that are added in ascending order
  uint32_t sum_rows, sum_stride;
  uint32_t n_rows;         // ≤ kLowRankRows
  float* const* out;       // rows, at the first column
  uint32_t n_columns;      // behind the first
  float* scratch;          // [kLowRankRows][sum_stride] of this thread's own
  const std::byte* ahead;  // as of LowRankDownTask
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
