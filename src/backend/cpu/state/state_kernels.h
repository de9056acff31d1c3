#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/exact_math.h"  // of state.inl

// Inner loops of recurrent layers, one table per instruction set, all with the same bits.
namespace kvik::cpu {

// Columns per block of a head's matrix: a block stays in the first-level cache while the tokens of
// a chunk are processed. A matrix is [blocks of columns][key_dim][columns of the block].
inline constexpr uint32_t kStateColumns = 32;

// One block of one head's matrix, and its tokens. Pointers are at the first token's values; the
// steps are the distances to the next token's in floats.
struct RecurrenceTask {
  float* matrix;
  uint32_t key_dim;    // a multiple of 16
  uint32_t n_columns;  // 16 or 32
  uint32_t n_tokens;
  const float *q, *k, *v, *decay, *rate;
  float* out;
  size_t qk_step, v_step, decay_step, rate_step, out_step;
  float skip = 0;  // of v, for state_space
};

// Channels [0, n_channels) of the rows of one run.
struct ConvTask {
  const float* taps;  // at the first channel; taps are channel_step apart
  const float* bias;  // likewise; null: none
  float* state;       // likewise, of n_taps − 1 earlier inputs
  size_t channel_step;
  const float* x;
  float* out;
  size_t x_step, out_step;  // to the next row
  uint32_t n_channels, n_taps, n_tokens;
  uint32_t n_kept;  // tokens that enter the state; later ones are draft tokens
  bool is_activated;
};

// Values of one row's heads. Delta rule: a = e^(factors · softplus(a + biases)), b = 1 / (1 +
// e^−b); state space: a = softplus(a + biases), b = e^(factors · a). In double precision, like the
// probabilities of experts.
struct GateTask {
  float *a, *b;
  const float *factors, *biases;
  uint32_t n_heads;
};

struct StateKernels {
  void (*gates)(const GateTask& task);
  void (*steps)(const GateTask& task);
  void (*delta_rule)(const RecurrenceTask& task);
  void (*state_space)(const RecurrenceTask& task);
  void (*short_conv)(const ConvTask& task);
  // One head: out = scale · x / sqrt(Σ x² + eps).
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
