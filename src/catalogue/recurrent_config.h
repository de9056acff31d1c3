#pragma once

#include <array>
#include <cstdint>

namespace kvik {

// Recurrent layers keep a state of fixed size instead of the K and V of each token: the newest
// inputs of a short convolution over every channel and, for most kinds, a matrix per head.

// Assignment of value heads to the key heads that they share.
enum class ValueHeadOrder : uint8_t {
  kGrouped,  // value head h uses key head h / (n_value_heads / n_key_heads)
  kTiled,    // value head h uses key head h mod n_key_heads
};

// The gated delta rule (Yang et al. 2024, "Gated Delta Networks", eq. 10): the matrix S of a head
// decays, and is then corrected towards the value for the key. S = g S; S += k (β (v − Sᵀ k))ᵀ; out
// = Sᵀ q. q, k and v are the output of a convolution over kernel_size tokens and SiLU; q and k are
// normalized to length 1.
struct DeltaConfig {
  uint32_t n_key_heads = 0;
  uint32_t n_value_heads = 0;
  uint32_t key_dim = 0;    // dimension of a key head
  uint32_t value_dim = 0;  // dimension of a value head
  uint32_t kernel_size = 0;
  ValueHeadOrder order = ValueHeadOrder::kTiled;
  bool is_gate_fused = false;     // one tensor in the file for β and the decay
  bool has_sigmoid_gate = false;  // function of the output gate; otherwise SiLU

  uint32_t keys_dim() const { return n_key_heads * key_dim; }
  uint32_t values_dim() const { return n_value_heads * value_dim; }
  uint32_t conv_dim() const { return 2 * keys_dim() + values_dim(); }
  // Returns the output size of the input projection: q, k and v, the output gate, β, and the input
  // of the decay.
  uint32_t in_dim() const { return conv_dim() + values_dim() + 2 * n_value_heads; }

  uint64_t conv_state_floats() const { return uint64_t{kernel_size - 1} * conv_dim(); }
  uint64_t matrix_floats() const { return uint64_t{values_dim()} * key_dim; }
  uint64_t state_floats() const { return conv_state_floats() + matrix_floats(); }
};

// Kimi Delta Attention (KDA, Kimi Linear 2025, eq. 1): the gated delta rule with a decay for each
// channel of a key, g = e^(A softplus(f + bias)) or, with a bound, g = e^(bound · sigmoid(A (f +
// bias))). The inputs f of the decays and of the output gate, which is a sigmoid, are projections,
// of low rank or of full rank.
struct KdaConfig {
  uint32_t n_heads = 0;
  uint32_t head_dim = 0;  // of keys and of values, and the rank of both projections of low rank
  uint32_t kernel_size = 0;
  bool is_low_rank = true;
  float bound = 0;  // lower bound of the decays' exponents, below 0; 0: none
  // Files have factors below 0, also −A of decays with a bound (GLM 5.3).
  bool has_negative_factors = true;

  uint32_t inner_dim() const { return n_heads * head_dim; }
  uint32_t conv_dim() const { return 3 * inner_dim(); }
  // Returns the output size of the input projections: q, k and v, both low ranks, and β.
  uint32_t in_dim() const { return conv_dim() + (is_low_rank ? 2 * head_dim : 0) + n_heads; }

  uint64_t conv_state_floats() const { return uint64_t{kernel_size - 1} * conv_dim(); }
  uint64_t state_floats() const { return conv_state_floats() + uint64_t{inner_dim()} * head_dim; }
};

// A gated short convolution (LFM2, Liquid AI 2025): with the three parts b, c and x of the input
// projection, out = c · convolution(b · x).
struct ShortConvConfig {
  uint32_t dim = 0;
  uint32_t kernel_size = 0;

  uint64_t state_floats() const { return uint64_t{kernel_size - 1} * dim; }
};

// A state space model with a scalar decay per head (Mamba 2: Dao and Gu 2024): with a step Δ =
// softplus(dt + bias), S = e^(AΔ) S + B (Δ x)ᵀ, out = Sᵀ C + D x. x, B and C are the output of a
// convolution and SiLU; B and C are shared by the heads of a group. The output is gated by SiLU(z)
// and then normalized per group.
struct StateSpaceConfig {
  uint32_t n_heads = 0;
  uint32_t head_dim = 0;
  uint32_t n_groups = 0;
  uint32_t state_dim = 0;
  uint32_t kernel_size = 0;
  bool is_norm_optional = false;  // without weights of the norm, there is none
  // Factors of the parts of the input projection, z, x, B, C and dt, and of the heads' output.
  std::array<float, 5> in_scales = {1, 1, 1, 1, 1};
  float out_scale = 1.0f;

  uint32_t inner_dim() const { return n_heads * head_dim; }
  uint32_t group_dim() const { return n_groups * state_dim; }
  // Returns the number of channels of the convolution: x, B and C.
  uint32_t conv_dim() const { return inner_dim() + 2 * group_dim(); }
  // Returns the output size of the input projection, and those of its parts: z, x, B, C and dt.
  uint32_t in_dim() const { return inner_dim() + conv_dim() + n_heads; }
  std::array<uint32_t, 5> in_widths() const {
    return {inner_dim(), inner_dim(), group_dim(), group_dim(), n_heads};
  }

  uint64_t conv_state_floats() const { return uint64_t{kernel_size - 1} * conv_dim(); }
  uint64_t state_floats() const { return conv_state_floats() + uint64_t{inner_dim()} * state_dim; }
};

// A state space model with a decay for each channel and dimension of the state (Mamba: Gu and Dao
// 2023; Jamba normalizes its inputs): dt, B and C are a projection of the convolution's output x,
// and Δ = softplus(projection of norm(dt) + bias). S[n] = e^(Δ A[n]) S[n] + norm(B)[n] Δ x, out = Σ
// norm(C)[n] S[n] + D x, gated by SiLU(z).
struct SelectiveConfig {
  uint32_t inner_dim = 0;  // channels
  uint32_t step_rank = 0;  // dimension of dt
  uint32_t state_dim = 0;
  uint32_t kernel_size = 0;

  // Returns the output size of the projection of x to dt, B and C.
  uint32_t selected_dim() const { return step_rank + 2 * state_dim; }

  uint64_t conv_state_floats() const { return uint64_t{kernel_size - 1} * inner_dim; }
  uint64_t state_floats() const { return conv_state_floats() + uint64_t{inner_dim} * state_dim; }
};

}  // namespace kvik
