#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/exact_math.h"  // for state.inl
#include "tensor/scan_limits.h"

// Kernels of recurrent layers, one table per instruction set. All tables give the same bits.
namespace kvik::cpu {

// Number of columns in a block of a head's matrix. A block stays in the first-level cache while the
// tokens of a run are processed. A matrix is stored as [blocks of columns][key_dim][columns of the
// block].
inline constexpr uint32_t kStateColumns = 32;

// One block of one head's matrix, and the tokens to process. Pointers are at the first token's
// values; the steps are the distances between tokens in floats.
struct RecurrenceTask {
  float* matrix;
  uint32_t key_dim;    // a multiple of 16
  uint32_t n_columns;  // 16 or 32
  uint32_t n_tokens;
  const float *q, *k, *v, *rate;
  const float* decay;  // of the head, or of each channel of its key
  float* out;
  size_t qk_step, v_step, decay_step, rate_step, out_step;
  float skip = 0;  // factor of v in out, for state_space
};

// Convolution of channels [0, n_channels) for the rows of one run.
struct ConvTask {
  const float* conv_weights;  // at the first channel; those of two tokens are channel_step apart
  const float* bias;          // at the first channel; null: none
  float* state;  // at the first channel; kernel_size − 1 earlier inputs, channel_step apart
  size_t channel_step;
  const float* x;
  float* out;
  size_t x_step, out_step;  // distance to the next row
  uint32_t n_channels, kernel_size, n_tokens;
  uint32_t n_kept;  // tokens that change the state; later ones are draft tokens
  bool is_activated;
};

// Values of the heads of one row. Gates of the delta rule: a = e^(factors · softplus(a + biases)),
// b = 1 / (1 + e^−b). Steps of the state-space recurrence: a = softplus(a + biases), b = e^(factors
// · a). Bounded decays: b = e^(bound / (1 + e^−(factors · (a + biases)))). Computed in double
// precision (exact_math.h).
struct GateTask {
  float *a, *b;
  const float *factors, *biases;
  uint32_t n_heads;
  float bound = 0;
};

// Mamba's recurrence (ScanRows) of channels [0, n_channels), a multiple of 16, for the rows of one
// run. Pointers are at the first channel and row; the steps are distances to the next row.
struct ScanTask {
  float* state;                           // values of a channel are channel_step apart
  const float *factors, *biases, *skips;  // the same
  size_t channel_step;
  const float* x;
  float* steps;
  const float *b, *c;
  float* out;
  size_t x_step, steps_step, b_step, c_step, out_step;
  uint32_t n_channels, state_dim, n_tokens;
  uint32_t n_kept;  // tokens that change the state; later ones are draft tokens
};

// One token of entries (EntryShape), channels [0, n_channels). The numbers of the state are those
// of the entry, then those of the next one if next_values is not null; lists of channels are `step`
// floats apart.
struct CompressTask {
  float* state;
  size_t step;
  const float *values, *gates, *biases;
  const float *next_values, *next_gates, *next_biases;
  uint32_t n_channels;
  bool begins;   // it is the first token of an entry
  bool follows;  // that entry is not the first one
  float* out;    // the entry; null: it is incomplete
};

struct StateKernels {
  void (*gates)(const GateTask& task);
  void (*steps)(const GateTask& task);
  void (*bounded_decays)(const GateTask& task);
  void (*delta_rule)(const RecurrenceTask& task);
  void (*key_delta_rule)(const RecurrenceTask& task);  // RecurrenceShape::decays_keys
  void (*state_space)(const RecurrenceTask& task);
  void (*selective_scan)(const ScanTask& task);
  void (*short_conv)(const ConvTask& task);
  void (*compress)(const CompressTask& task);
  // Normalizes one head: out = scale · x / sqrt(Σ x² + eps).
  void (*l2_norm)(const float* x, float* out, uint32_t n, float eps, float scale);
};

namespace scalar {
extern const StateKernels kStateKernels;
}
namespace avx2 {
extern const StateKernels kStateKernels;
}
namespace avx512 {
extern const StateKernels kStateKernels;
}

}  // namespace kvik::cpu
