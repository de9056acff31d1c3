#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"
#include "backend/cuda/kernel/row_tile.h"
#include "tensor/element_enum.h"

// Matrix products of the CUDA backend: weights in the CPU's panels of 32 output columns
// (backend/layout/panel_matrix.h), a lane of a warp per column, and arithmetic bit-identical to
// backend/cpu/matmul/matmul_kernels.h. Sums within a block of 32 are integers, so any lane may
// compute them; the ordered part is one chain of fma over the blocks of a column, which one lane
// computes. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kPanelColumns = 32;
inline constexpr uint32_t kBlock = 32;  // of k, with one power of two

// Quantized rows of activations: x ≈ scale · power · level, as rounded by matmul_activations.inl. A
// row has n_blocks blocks, of which only k / 32 are used.
struct Activations {
  int8_t* levels;     // [rows, k]
  float* shifts;      // [rows, n_blocks]: 1.5 · 2^23 · power
  uint32_t* sums;     // [rows, n_blocks]: Σ levels of the first 16, and of the second 16 << 16
  float* scales;      // [rows]
  uint32_t n_blocks;  // a multiple of 16
};

// Row i is at x + (i / n_heads) · stride + (i % n_heads) · step. Grid: [1, rows], kQuantThreads.
struct QuantTask {
  const float* x;
  size_t stride, step;
  uint32_t n_heads;
  uint32_t n_rows, k;
  const uint32_t* gather;  // [k] or null: as in TensorView
  Activations out;
};
inline constexpr uint32_t kQuantThreads = 128;

// out[i] = Σ x[x_row(i)] · w, or out[i] += that, for the rows of each tile and the columns of one
// part of each matrix. Grid: [panels, tiles]; for `many`, kManyPanels panels per block.
struct MultiplyTask {
  const uint8_t* weights = nullptr;  // panel p of matrix m: + m · matrix_bytes + p · panel_bytes
  size_t panel_bytes = 0, matrix_bytes = 0;
  uint32_t k = 0;
  uint32_t n_columns = 0;
  Activations x = {};             // for integer weights
  const float* floats = nullptr;  // for float weights: row r at + r · float_stride
  size_t float_stride = 0;
  const uint32_t* x_rows = nullptr;  // null: row i · x_row_step + matrix · x_matrix_step
  uint32_t x_row_step = 0, x_matrix_step = 0;
  float* out = nullptr;  // row i, column n: + i · out_stride + matrix · out_matrix_step + n
  size_t out_stride = 0, out_matrix_step = 0;
  bool adds = false;
  const RowTile* tiles = nullptr;  // null: tiles of tile_rows rows, the last with the rest
  uint32_t tile_rows = 0, n_rows = 0;
};

// Rows of a tile in each kernel: those of kTileRows.
inline constexpr uint32_t kFewRows[] = {1, 4, 8};
inline constexpr uint32_t kManyRows = 64, kManyPanels = 2;
inline constexpr uint32_t kFloatRows[] = {8, 32};
inline constexpr uint32_t kFewThreads = 256, kManyThreads = 128, kFloatThreads = 256;

// out[i] = row tokens[i] − first_row, if a part of n_rows rows has it. Grid: [pieces of
// kEmbedThreads columns, tokens].
struct EmbedTask {
  const uint8_t* panels;
  size_t panel_bytes;
  uint32_t k;
  uint32_t first_row, n_rows;
  const uint32_t* tokens;
  uint32_t n_tokens;
  float* out;
  size_t out_stride;
};
inline constexpr uint32_t kEmbedThreads = 256;

// Kernels of a weight type; float weights have no `many`.
struct WeightKernels {
  Kernel<MultiplyTask> few[3];  // as kFewRows, or kFloatRows
  Kernel<MultiplyTask> many;
  Kernel<EmbedTask> embed;
};

struct MatmulKernels {
  Kernel<QuantTask> quantise;
  WeightKernels by_type[kNumElementTypes];  // empty if there is no kernel
};

extern const MatmulKernels kMatmulKernels;

}  // namespace kvik::cuda
