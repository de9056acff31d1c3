#pragma once

#include <cstdint>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// Embeddings of n-grams (PLE, Qwen4-Exp 2026), which are added to the residual streams before a
// layer. For each size n from 2 to n_tokens, the last n tokens are hashed, and each of
// heads_per_size heads has a row for them in a common table:
//   row = (t₀ · multipliers[0] ^ t₁ · multipliers[1] ^ … tₙ₋₁ · multipliers[n − 1]) mod rows[head]
//   +
//         offsets[head],
// where t₀ is the token itself and tᵢ the i-th before it. Before the first token, and before the
// token after end_token, there is end_token only.
struct NgramConfig {
  uint32_t layer = 0;  // the embeddings are added before this layer
  uint32_t n_tokens = 0;
  uint32_t heads_per_size = 0;
  uint32_t row_dim = 0;      // columns of the table
  uint32_t n_rows = 0;       // rows of the table, some of which may be unused
  uint32_t kernel_size = 0;  // taps of a convolution whose inputs are n_tokens tokens apart
  TokenId end_token = 0;
  std::vector<uint64_t> multipliers;    // [n_tokens]
  std::vector<uint32_t> offsets, rows;  // [n_heads()]

  uint32_t n_heads() const { return (n_tokens - 1) * heads_per_size; }
  uint32_t dim() const { return n_heads() * row_dim; }
  // Returns the number of taps of the convolution with those between, which are zero.
  uint32_t n_taps() const { return (kernel_size - 1) * n_tokens + 1; }
};

}  // namespace kvik
