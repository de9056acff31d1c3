#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"
#include "tensor/scan_limits.h"

// Kernels of recurrent layers. The layouts are those of backend/cpu/state/state.inl and
// state_kernels.h, and the arithmetic gives the same bits. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kStateThreads = 128;
inline constexpr uint32_t kStateColumns = 32;  // columns per block of a head's matrix

// Consecutive tokens of one sequence, and the state of one layer: before the call that of the
// tokens before them, afterwards that after the first n_kept of them.
struct PlacedState {
  float* state;
  uint32_t first_row, n_rows, n_kept;
  uint32_t scratch;  // index among the runs with draft tokens
};

struct RowsView {
  float* data;
  size_t stride;
};

// Convolves each channel with its weights (ConvShape). Grid: [pieces of kStateThreads channels,
// runs], kStateThreads.
struct ConvTask {
  const float *conv_weights, *bias;
  const PlacedState* runs;
  RowsView x, out;
  uint32_t n_channels, kernel_size;
  bool is_activated;
};

// x = scale · x / sqrt(Σ x² + eps), separately for each head of n columns. Grid: [heads, rows], 32
// threads.
struct L2NormTask {
  RowsView x;
  uint32_t n_rows, n;
  float eps, scale;
};

// Advances the matrices of the runs, with a warp per block of columns. Grid: [blocks of columns,
// heads, runs], 32 threads.
struct RecurrenceTask {
  const PlacedState* runs;
  RowsView q, k, v, decay, rate, out;
  uint32_t n_heads, n_key_heads, key_dim, value_dim;
  bool is_tiled, decays_keys;
  // [n_heads], for the state-space recurrence; null for the delta rule
  const float* skips;
  // For each block of columns of each run with draft tokens: [key_dim, kStateColumns]
  float* scratch;
};

// Gates of the delta rule: a = e^(factors · softplus(a + biases)), b = 1 / (1 + e^−b). Steps of the
// state-space recurrence: a = softplus(a + biases), b = e^(factors · a). Bounded decays: b =
// e^(bound / (1 + e^−(factors · (a + biases)))). Grid: [pieces of kGateThreads heads, rows],
// kGateThreads.
inline constexpr uint32_t kGateThreads = 32;
struct GateTask {
  RowsView a, b;
  const float *factors, *biases;  // [n_heads]
  uint32_t n_rows, n_heads;
  float bound;
};

// Mamba's recurrence (ScanRows), with a thread per channel. Grid: [pieces of kStateThreads
// channels, runs], kStateThreads.
struct ScanTask {
  const PlacedState* runs;
  RowsView x, steps, b, c, out;
  const float *factors, *biases, *skips;  // [state_dim, n_channels], [n_channels], [n_channels]
  uint32_t n_channels, state_dim;
};

struct StateKernels {
  Kernel<GateTask> gates, steps, bounded_decays;
  Kernel<ConvTask> short_conv;
  Kernel<L2NormTask> l2_norm;
  Kernel<RecurrenceTask> delta_rule, state_space;
  Kernel<ScanTask> selective_scan;
};

extern const StateKernels kStateKernels;

}  // namespace kvik::cuda
