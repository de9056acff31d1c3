#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "backend/ops/rows.h"

namespace kvik {

// Consecutive tokens of one sequence in a batch, and one layer's part of the sequence's recurrent
// state, in the backend's memory. Before a call it is the state before these tokens, afterwards the
// state after them. The last n_draft_tokens tokens are draft tokens: they see all earlier tokens
// but do not change the state.
struct StateRun {
  float* state = nullptr;
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  uint32_t n_draft_tokens = 0;  // at most n_rows

  uint32_t n_kept() const { return n_rows - n_draft_tokens; }
};

// Causal convolution of each channel over its newest kernel_size inputs. Inputs before the run's
// first row come from the state: out[t] = bias + Σ conv_weights[i] · x[t − kernel_size + 1 + i], in
// ascending i, followed by SiLU if `is_activated`. State: [kernel_size − 1, n_channels], oldest
// input first.
struct ConvShape {
  const float* conv_weights = nullptr;  // [kernel_size, n_channels], oldest first
  const float* bias = nullptr;          // [n_channels]; null: none
  uint32_t kernel_size = 0;
  bool is_activated = false;
};

// Inputs of Mamba's recurrence (Gu and Dao 2023): for each channel, with Δ = softplus(step + bias),
// S[n] = e^(Δ · factor[n]) · S[n] + b[n] · Δ x and out = Σ c[n] · S[n] + skip · x, in ascending n.
// State: [state_dim, n_channels].
struct ScanRows {
  Rows x, steps;  // [M, n_channels], a multiple of 16
  Rows b, c;      // [M, state_dim], at most kMaxScanState
};
struct ScanWeights {
  const float* factors = nullptr;  // [state_dim, n_channels]
  const float* biases = nullptr;   // [n_channels]
  const float* skips = nullptr;    // [n_channels]
};

// Decays with a lower bound, e^(bound · sigmoid(factors · (inputs + biases))), and their
// parameters, [n_heads], on the host.
struct DecayShape {
  std::span<const float> factors, biases;
  float bound = 0;
};

// State matrices of a recurrent layer: [key_dim, value_dim] for each of n_heads heads. For each
// token, the matrix is multiplied by a decay g, then the outer product of the key and β (v − Sᵀ k)
// is added (DeltaConfig). Head h uses q and k of key head key_head(h).
struct RecurrenceShape {
  uint32_t n_heads = 0, n_key_heads = 0;
  uint32_t key_dim = 0, value_dim = 0;  // multiples of 16
  // True if heads h, h + n_key_heads, … use the same key head; else adjacent heads do.
  bool is_tiled = false;
  bool decays_keys = false;  // g is a vector with a decay for each channel of a key

  uint32_t key_head(uint32_t head) const {
    return is_tiled ? head % n_key_heads : head / (n_heads / n_key_heads);
  }
  // Returns the length to which queries are scaled after they were normalized to 1.
  float query_length() const { return 1.0f / std::sqrt(static_cast<float>(key_dim)); }
  // Returns the i-th of the heads that use a key head.
  uint32_t head(uint32_t key_head, uint32_t i) const {
    return is_tiled ? i * n_key_heads + key_head : key_head * (n_heads / n_key_heads) + i;
  }
};

// Inputs of a recurrence. q, k: [M, n_key_heads · key_dim]; v: [M, n_heads · value_dim]; decay and
// rate (g and β): [M, n_heads], but decay [M, n_heads · key_dim] if the shape decays_keys.
struct RecurrenceRows {
  Rows q, k, v, decay, rate;
};

}  // namespace kvik
