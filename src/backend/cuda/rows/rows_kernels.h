#pragma once

#include <cstddef>

#include "backend/cuda/kernel/grid.h"
#include "tensor/op_kinds.h"

// Kernels over rows of activations, and their tasks. All pointers are device pointers. The
// arithmetic of an element is that of backend/cpu/rows/rows.inl.
namespace kvik::cuda {

// Elements of a row per thread block in elementwise kernels.
inline constexpr uint32_t kRowThreads = 256;

// [n_rows, n_cols]: row r begins at data + r · stride.
struct DeviceRows {
  float* data;
  size_t stride;
  uint32_t n_rows, n_cols;
};

// Grid: [groups of n columns, rows]; 32 to 256 threads. x may be out.
struct RmsNormTask {
  DeviceRows x, out;
  const float* weight;  // [n]
  uint32_t n;
  float eps;
};

// x[r] += y[numbers[r]], or y[r] without numbers; a y of stride 0 is one row for all. Grid of this
// and all following: [pieces of kRowThreads columns, rows].
struct AddTask {
  DeviceRows x;
  const float* y;
  size_t y_stride;
  const uint32_t* numbers;
};

// x[r] *= factors[r], or `factor` without them.
struct ScaleTask {
  DeviceRows x;
  const float* factors;
  float factor;
};

// x[rows[i]][c] *= factors[c], for n_rows of them.
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

// First column of each row's largest number, kNoColumn if there is none. Grid: [1, rows],
// kRowThreads.
inline constexpr uint32_t kNoColumn = UINT32_MAX;
struct LargestTask {
  DeviceRows x;
  uint32_t* columns;  // [n_rows]
};

// Columns of the grid: pairs of all heads.
struct RopeTask {
  DeviceRows x;
  const float *cos, *sin;  // [n_rows, n_pairs]
  uint32_t head_dim, n_heads, n_pairs;
  RopePairing pairing;
};

// Head h of row r: n_cols floats of head h of row numbers[r] (or r) of another matrix.
struct CopyTask {
  const float* from;
  size_t from_stride, from_step;  // to the next row, to the next head
  float* to;
  size_t to_stride, to_step;
  const uint32_t* numbers;  // null: none
  uint32_t n_rows, n_heads, n_cols;
};

// x[r] += Σ weights[r][j] · y[rows[r][j]], n terms in ascending j; without rows y[r · n + j].
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
  Kernel<LargestTask> largest;
  Kernel<RopeTask> rope;
  Kernel<CopyTask> copy;
  Kernel<AddWeightedTask> add_weighted;
};

extern const RowKernels kRowKernels;

}  // namespace kvik::cuda
