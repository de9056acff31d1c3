#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace kvik {

// The attention of one new token in all layers, over a context whose pages hold noise: what reading
// K and V costs, whatever weights the model has.
struct AttentionCase {
  KvGeometry kv;  // of all layers together
  uint32_t n_heads = 0;
  float scale = 0;
  std::vector<uint32_t> windows;  // by layer; 0: all tokens are seen
  uint32_t depth = 0;             // tokens, the new one included
};

// Of several tries.
struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

// Milliseconds; without the outermost twentieths of the tries.
Spread time_attention(Backend& backend, const AttentionCase& probe);

// Of all pages of the case.
uint64_t bytes_of(const Backend& backend, const AttentionCase& probe);

}  // namespace kvik
