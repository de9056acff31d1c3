#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/layout/panel.h"
#include "tensor/element_enum.h"

// Matrix products of the CPU backend, one table of kernels per instruction set.
//
// Weights are in panels of 32 output columns over all of k (layout/panel_matrix.h). Columns are in
// lanes, 16 per half of a panel, and an output element is one chain of additions in ascending k, in
// one lane. Activations are packed into tiles of a few rows, in which the values that a kernel
// needs together are adjacent, so that it reads memory in one direction. Unpacked rows are mostly a
// power of two apart and would compete for the same few sets of the first-level cache.
//
// The arithmetic of one output element gives the same bits for any number of rows and with all
// tables:
//   f32, f16, bf16, fp8: sum = fma(x[k], w[k], sum), from sum = 0
//   quantized:      x ≈ row_scale · power · level, with a power for each block of 32 k; then
//                   out = row_scale · sum (nvfp4: row_scale · scale of the matrix, rounded, · sum),
//                   where for each block of 32 (q6_k, nvfp4, iq2_xs, iq2_s, iq1_m: of 16)
//                   sum = fma(power · Σ quant · level, w_scale, sum), and if there are minima
//                   sum = fma(power · Σ level, −minimum, sum) for the block or, with q2_k and 8-bit
//                   groups, for its first and then its second 16. All Σ are exact, and so are their
//                   products with the power of two. In q2_k and q3_k, a quant times the small
//                   integer scale of its 16 k has 8 bits; this product takes the place of the quant
// Only the bf16 kernels of avx512bf16 and amx differ: they round x to bf16. avx512bf16 adds the
// products of k and k + 1 with vdpbf16ps, amx those of 32 k with tdpbf16ps (matmul_amx.cpp).
namespace kvik::cpu {

inline constexpr uint32_t kActivationBlock = 32;  // number of activations with one power of two

// Format of packed activations. A tile of r rows is stored as
//   kF32:  [k][r] float
//   kBF16: [k / 2][r][2] bf16; for amx [k / 32][r][32] bf16
//   kInt8:     for each block of 32: [r][32] int8 levels, then words [3][r]: the shift (the float
//              1.5 · 2^23 · power); its bits minus 8 · Σ levels; its bits minus 128 · Σ levels
//   kInt8Sums: the same with words [4][r]: the shift; power · Σ levels; the shift's bits minus
//              32 · Σ levels of the first 16; the same of the second 16
//   kInt8HalfSums: the same with words [4][r]: the shift; power · Σ levels of the first 16; the
//              same of the second 16; the shift's bits minus 128 · Σ levels of all
// The int8 formats end with the row scales, [r] float. Integer products are added to the bits of
// the shift, minus the offset of unsigned weights. The result, read as a float, is shift + power ·
// Σ, with room for |Σ| < 2^22, so that conversion and scaling cost one subtraction. If k is odd,
// kF32 and kBF16 end with a zero for each row.
enum class ActivationFormat : uint8_t { kF32, kBF16, kInt8, kInt8Sums, kInt8HalfSums };
inline constexpr uint32_t kNumActivationFormats = 5;

struct ActivationTile {
  const float* x;        // row r begins at x + rows[r] · stride
  const uint32_t* rows;  // null: rows 0, 1, …
  size_t stride;
  uint32_t n_rows;  // number of rows of the tile
  uint32_t k;
  std::byte* out;                    // n_rows · row_bytes(k) bytes
  float* scratch;                    // pack_scratch_floats(k) floats, for this thread only
  const uint32_t* gather = nullptr;  // TensorView::gather of the weights, for int8 formats; or null

  const float* row(uint32_t r) const { return x + (rows ? rows[r] : r) * stride; }
};

// Return the sizes of the scratch memory of one row: the peaks of its blocks, rounded up to whole
// vectors; and these followed by the row's gathered values.
inline size_t pack_peak_floats(uint32_t k) { return (size_t{k} / kActivationBlock + 31) / 16 * 16; }
inline size_t pack_scratch_floats(uint32_t k) { return pack_peak_floats(k) + k; }

struct ActivationKernels {
  uint32_t (*tile_rows)(uint32_t n_rows);  // for a product with that many rows
  size_t (*row_bytes)(uint32_t k);
  void (*pack)(const ActivationTile& tile);
};

// out[m][n] = Σ x · w, or out[m][n] += Σ x · w, for some panels and all packed rows.
struct MultiplyTask {
  const std::byte* weights;  // panel p begins at weights + p · panel_bytes
  size_t panel_bytes;
  uint32_t n_panels;
  uint32_t k;
  const std::byte* x;  // tiles of tile_rows rows; the last tile has the rest
  uint32_t n_rows;
  uint32_t tile_rows;
  float* out;  // at the first panel's first column
  size_t out_stride;
  uint32_t n_columns;  // at most kPanelColumns · n_panels
  bool accumulate;
  bool in_one_step;  // MatmulKernels::prefetches_in_one_step
  float scale;       // TensorView::scale, for activations with row scales
  // Sums, for this thread only; aligned to 64 bytes: kScratchFloatsPerRow floats for each row, the
  // rows rounded up to whole tiles, times WeightKernels::strip_panels. Then kWideBytes bytes for
  // widened weights of the current part of k; their place depends on n_rows.
  float* scratch;
};

inline constexpr size_t kScratchFloatsPerRow = kPanelColumns;
inline constexpr size_t kWideBytes = size_t{64} << 10;

// Kernels of one weight type.
struct WeightKernels {
  ElementType type;
  ActivationFormat format;
  void (*multiply)(const MultiplyTask& task);
  uint32_t strip_panels = 1;  // most panels of a task of more than 16 rows
};
// Some types of an instruction set. The types are compiled in several files, because a single one
// would take the compiler minutes.
struct WeightRows {
  const WeightKernels* begin;
  size_t n;
};
template <size_t n>
constexpr WeightRows rows_of(const WeightKernels (&kernels)[n]) {
  return {kernels, n};
}

struct MatmulKernels {
  const ActivationKernels& activations(ActivationFormat format) const {
    return by_format[static_cast<size_t>(format)];
  }
  const WeightKernels& weights(ElementType type) const {
    return by_type[static_cast<size_t>(type)];
  }

  ActivationKernels by_format[kNumActivationFormats];
  // An entry has no `multiply` if the type is not supported.
  WeightKernels by_type[kNumElementTypes];
  // True if, with few rows, weights are prefetched in one step (matmul_loops.inl).
  bool prefetches_in_one_step = false;
};

namespace scalar {
extern const ActivationKernels kActivations[kNumActivationFormats];
extern const WeightRows kMostUsedTypes, kSmallTypes, kLowBitTypes, kGroupTypes, kCodeTypes,
    kTableTypes, kFp8Types;
}  // namespace scalar
namespace avx2 {
extern const ActivationKernels kActivations[kNumActivationFormats];
extern const WeightRows kMostUsedTypes, kSmallTypes, kLowBitTypes, kGroupTypes, kCodeTypes,
    kTableTypes, kFp8Types;
}  // namespace avx2
namespace avxvnni {
extern const ActivationKernels kActivations[kNumActivationFormats];
extern const WeightRows kMostUsedTypes, kSmallTypes, kLowBitTypes, kGroupTypes, kCodeTypes,
    kTableTypes, kFp8Types;
}  // namespace avxvnni
namespace avx512 {
extern const ActivationKernels kActivations[kNumActivationFormats];
extern const WeightRows kMostUsedTypes, kSmallTypes, kLowBitTypes, kGroupTypes, kCodeTypes,
    kTableTypes, kFp8Types;
}  // namespace avx512
namespace avx512bf16 {  // everything else is that of avx512
extern const ActivationKernels kBf16Activations;
extern const WeightRows kBf16Types;
}  // namespace avx512bf16
namespace amx {  // everything else is that of avx512
extern const ActivationKernels kBf16Activations;
extern const WeightRows kBf16Types;
}  // namespace amx
namespace avx512vbmi {  // everything else is that of avx512
extern const WeightRows kCodeTypes;
}  // namespace avx512vbmi

}  // namespace kvik::cpu
