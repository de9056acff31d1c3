#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/row_buffers.h"

namespace kvik {

// Learned numbers of each head, from which the scale of its queries follows (SSMax).
struct SsmaxWeights {
  std::vector<float> scale, bias;  // [n_heads], on the host; empty: queries are not scaled
};

// Scales queries by scale · ln(position + 1) + bias, so that attention over long contexts stays
// sharp (SSMax, Nakanishi 2025). One thread.
class QueryScaling {
 public:
  // Returns rows with a factor for each head: [n_rows_max, heads of the widest layer with SSMax].
  static Rows take_buffer(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);

  QueryScaling(Backend& backend, Rows factors);

  // Sets the positions of the rows that follow.
  void prepare(std::span<const uint32_t> positions);
  // Scales q, [n_rows, n_heads · head_dim], unless the layer has no weights for it.
  void scale(const SsmaxWeights& weights, Rows q, uint32_t head_dim);

 private:
  Backend& backend_;
  const Rows factors_;
  std::vector<float> logarithms_;    // of position + 1, by row
  std::vector<float> host_factors_;  // in the layout of factors_
};

}  // namespace kvik
