#pragma once

#include <cstddef>

#include "backend/cuda/kernel/grid.h"
#include "tensor/op_kinds.h"

// Kernels over rows of activations, and their tasks. All pointers are device pointers. Each element
// has the same arithmetic as in backend/cpu/rows/rows.inl.
namespace kvik::cuda {

// Threads per block in elementwise kernels: a thread per column.
inline constexpr uint32_t kRowThreads = 256;

// A matrix [n_rows, n_cols]. Row r begins at data + r · stride.
struct DeviceRows {
  float* data;
  size_t stride;
  uint32_t n_rows, n_cols;
};

// x may be out. Grid: [groups of n columns, rows], 32 to 256 threads.
struct RmsNormTask {
  DeviceRows x, out;
  const float* weight;  // [n]
  uint32_t n;
  float eps;
};

// x[r] += y[numbers[r]], or y[r] if `numbers` is null. A y_stride of 0 adds the same row to all.
// Grid, unless stated otherwise for a task below: [pieces of kRowThreads columns, rows],
// kRowThreads.
struct AddTask {
  DeviceRows x;
  const float* y;
  size_t y_stride;
  const uint32_t* numbers;
};

// x[r][c] *= factors[r][c / n_columns], or `factor` if `factors` is null.
struct ScaleTask {
  DeviceRows x;
  const float* factors;
  size_t factors_stride;  // distance to the next row
  uint32_t n_columns;     // with the same factor
  float factor;
};

// x[rows[i]][c] *= factors[c] for i < n_rows.
struct ScaleColumnsTask {
  DeviceRows x;
  const float* factors;
  const uint32_t* rows;
  uint32_t n_rows;
};

struct SoftCapTask {
  DeviceRows x;
  float cap;
};

// out may be gate.
struct ActivationTask {
  DeviceRows gate, up, out;
  Activation activation;
};

// out may be gate: out = min(silu(gate), limit) · (up clamped to ±limit).
struct LimitedSiluTask {
  DeviceRows gate, up, out;
  float limit;
};

// Finds the first column of each row's largest finite number; kNoColumn if there is none. Grid: [1,
// rows], kRowThreads.
inline constexpr uint32_t kNoColumn = UINT32_MAX;
struct LargestTask {
  DeviceRows x;
  uint32_t* columns;  // [n_rows]
};

// A thread rotates one pair of one head. Grid: [pieces of kRowThreads pairs of all heads, rows],
// kRowThreads.
struct RopeTask {
  DeviceRows x;
  const float *cos, *sin;  // [n_rows, n_pairs]
  uint32_t head_dim, n_heads, n_pairs;
  RopePairing pairing;
};

// Copies n_cols floats of each head: head h of row r is copied from head h of row numbers[r], or r
// if `numbers` is null, of another matrix.
struct CopyTask {
  const float* from;
  size_t from_stride, from_step;  // distance to the next row, and to the next head
  float* to;
  size_t to_stride, to_step;
  const uint32_t* numbers;  // null: rows in order
  uint32_t n_rows, n_heads, n_cols;
};

// x[r] += Σ weights[r][j] · y[rows[r][j]], n terms in ascending j. If `rows` is null: y[r · n + j].
struct AddWeightedTask {
  DeviceRows x;
  const float* y;
  size_t y_stride;
  const uint32_t* rows;
  const float* weights;
  uint32_t n;
};

struct ClearTask {
  DeviceRows x;
};

struct RowKernels {
  Kernel<RmsNormTask> rms_norm;
  Kernel<AddTask> add;
  Kernel<ScaleTask> scale;
  Kernel<ScaleColumnsTask> scale_columns;
  Kernel<SoftCapTask> soft_cap;
  Kernel<ClearTask> clear;
  Kernel<ActivationTask> gated_activation;
  Kernel<LimitedSiluTask> limited_silu;
  Kernel<LargestTask> largest;
  Kernel<RopeTask> rope;
  Kernel<CopyTask> copy;
  Kernel<AddWeightedTask> add_weighted;
};

extern const RowKernels kRowKernels;

}  // namespace kvik::cuda
