#pragma once

#include <cstdint>

namespace kvik {

// Layers that remember all earlier tokens in a state of one size, in place of the K and V of each.
// A state is the newest inputs of a short convolution over every channel, and for most kinds a
// matrix for each head.

// Which key head the value heads read that share one.
enum class ValueHeadOrder : uint8_t {
  kGrouped,  // neighbours: value head h reads key head h / (n_value_heads / n_key_heads)
  kTiled,    // h reads key head h mod n_key_heads
};

// The gated delta rule (Yang et al. 2024, "Gated Delta Networks", eq. 10): a head's matrix S
// decays, then what it says of a key is corrected towards the value. S = g S; S += k (β (v − Sᵀ
// k))ᵀ; out = Sᵀ q. q, k and v come out of a convolution of n_taps tokens and SiLU; q and k have
// length 1.
struct DeltaConfig {
  uint32_t n_key_heads = 0;
  uint32_t n_value_heads = 0;
  uint32_t key_dim = 0;    // of a head
  uint32_t value_dim = 0;  // of a head
  uint32_t n_taps = 0;
  ValueHeadOrder order = ValueHeadOrder::kTiled;
  bool is_gate_fused = false;  // one tensor in the file for β and the decay

  uint32_t keys_dim() const { return n_key_heads * key_dim; }
  uint32_t values_dim() const { return n_value_heads * value_dim; }
  uint32_t conv_dim() const { return 2 * keys_dim() + values_dim(); }
  // What the input projection gives: q, k and v, then the output's gate, β and the decay's input.
  uint32_t in_dim() const { return conv_dim() + values_dim() + 2 * n_value_heads; }

  uint64_t conv_state_floats() const { return uint64_t{n_taps - 1} * conv_dim(); }
  uint64_t matrix_floats() const { return uint64_t{values_dim()} * key_dim; }
  uint64_t state_floats() const { return conv_state_floats() + matrix_floats(); }
};

// A gated convolution of a few tokens and nothing else (LFM2, Liquid AI 2025): of the three parts
// b, c and x that the input projection gives, out = c · convolution(b · x).
struct ShortConvConfig {
  uint32_t dim = 0;
  uint32_t n_taps = 0;

  uint64_t state_floats() const { return uint64_t{n_taps - 1} * dim; }
};

// A state space with a scalar decay for each head (Mamba 2: Dao and Gu 2024): with a step Δ =
// softplus(dt + bias), S = e^(AΔ) S + B (Δ x)ᵀ, out = Sᵀ C + D x. x, B and C come out of a
// convolution and SiLU; B and C are those of the head's group. What the heads give is gated by
// SiLU(z), then normed, each group for itself.
struct StateSpaceConfig {
  uint32_t n_heads = 0;
  uint32_t head_dim = 0;
  uint32_t n_groups = 0;
  uint32_t state_dim = 0;
  uint32_t n_taps = 0;

  uint32_t inner_dim() const { return n_heads * head_dim; }
  uint32_t group_dim() const { return n_groups * state_dim; }
  // x, B and C.
  uint32_t conv_dim() const { return inner_dim() + 2 * group_dim(); }
  // What the input projection gives: z, then those, then dt.
  uint32_t in_dim() const { return inner_dim() + conv_dim() + n_heads; }

  uint64_t conv_state_floats() const { return uint64_t{n_taps - 1} * conv_dim(); }
  uint64_t state_floats() const { return conv_state_floats() + uint64_t{inner_dim()} * state_dim; }
};

}  // namespace kvik
