#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"
#include "backend/cuda/kernel/row_tile.h"
#include "tensor/element_enum.h"

// Matrix products of the CUDA backend. Weights are in the same panels of 32 output columns as on
// the CPU (backend/layout/panel_matrix.h), with a column for each lane of a warp. The arithmetic
// gives the same bits as backend/cpu/matmul/matmul_kernels.h describes. Sums within a block of 32 k
// are integers, so any lane may compute them. The part that has an order is a chain of fma over the
// blocks of a column; one lane computes it. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kPanelColumns = 32;
inline constexpr uint32_t kBlock = 32;  // number of k with one power of two

// Quantized rows of activations: x ≈ scale · power · level, rounded as in matmul_activations.inl. A
// row has n_blocks blocks, of which the first k / 32 are used.
struct Activations {
  int8_t* levels;  // [rows, k]
  float* shifts;   // [rows, n_blocks]: 1.5 · 2^23 · power
  // [rows, n_blocks]: sum of the first 16 levels, and of the last 16 in the upper 16 bits
  uint32_t* sums;
  float* scales;      // [rows]
  uint32_t n_blocks;  // a multiple of 16
};

// Quantizes rows. Row i begins at x + (i / n_heads) · stride + (i % n_heads) · step. Grid: [1,
// rows], kQuantThreads.
struct QuantTask {
  const float* x;
  size_t stride, step;
  uint32_t n_heads;
  uint32_t n_rows, k;
  const uint32_t* gather;  // TensorView::gather, [k]; null: columns in order
  Activations out;
};
inline constexpr uint32_t kQuantThreads = 128;

// out[i] = Σ x[x_row(i)] · w, or out[i] += the same, for the rows of each tile and the columns of
// one part of each matrix. Grid: [panels, tiles]; WeightKernels::many has kManyPanels panels per
// thread block.
struct MultiplyTask {
  // Panel p of matrix m begins at weights + m · matrix_bytes + p · panel_bytes.
  const uint8_t* weights = nullptr;
  size_t panel_bytes = 0, matrix_bytes = 0;
  uint32_t k = 0;
  uint32_t n_columns = 0;
  Activations x = {};             // for quantized weights
  const float* floats = nullptr;  // for float weights: row r begins at floats + r · float_stride
  size_t float_stride = 0;
  // Row of x for each row of the product; null: row i uses row i · x_row_step + matrix ·
  // x_matrix_step.
  const uint32_t* x_rows = nullptr;
  uint32_t x_row_step = 0, x_matrix_step = 0;
  // Column n of row i is at out + i · out_stride + matrix · out_matrix_step + n.
  float* out = nullptr;
  size_t out_stride = 0, out_matrix_step = 0;
  bool adds = false;
  const RowTile* tiles = nullptr;  // null: all rows in tiles of tile_rows rows, of matrix 0
  uint32_t tile_rows = 0, n_rows = 0;
};

// Rows of a tile in each kernel. kTileRows contains all of them.
inline constexpr uint32_t kFewRows[] = {1, 4, 8};
inline constexpr uint32_t kManyRows = 64, kManyPanels = 2;
inline constexpr uint32_t kFloatRows[] = {8, 32};
inline constexpr uint32_t kFewThreads = 256, kManyThreads = 128, kFloatThreads = 256;

// out[i] = row tokens[i] − first_row of a part, if the part has that row, dequantized. Grid:
// [pieces of kEmbedThreads columns, tokens].
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

// Kernels of one weight type.
struct WeightKernels {
  Kernel<MultiplyTask> few[3];  // by the rows of a tile: kFewRows, or kFloatRows for float weights
  // Not set for float weights.
  Kernel<MultiplyTask> many;
  Kernel<EmbedTask> embed;
};

struct MatmulKernels {
  Kernel<QuantTask> quantize;
  WeightKernels by_type[kNumElementTypes];  // an entry has no kernels if the type is not supported
};

extern const MatmulKernels kMatmulKernels;

}  // namespace kvik::cuda
