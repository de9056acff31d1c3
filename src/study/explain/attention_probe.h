#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace kvik {

// A measurement of the attention of one new token in all layers over a context of noise: the cost
// of reading K and V, independent of the model's weights.
struct AttentionCase {
  KvGeometry kv;  // all layers together
  uint32_t n_heads = 0;
  float scale = 0;
  std::vector<uint32_t> windows;  // one per layer; 0: the layer attends to all tokens
  uint32_t depth = 0;             // number of tokens including the new one
};

// Statistics of repeated measurements.
struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

// Returns the times in milliseconds, without the highest and lowest twentieth.
Spread time_attention(Backend& backend, const AttentionCase& probe);

// Returns the bytes of all pages of the case.
uint64_t bytes_of(const Backend& backend, const AttentionCase& probe);

}  // namespace kvik
