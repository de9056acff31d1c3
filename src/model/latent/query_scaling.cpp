#include "model/latent/query_scaling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvik {

Rows QueryScaling::take_buffer(const ModelConfig& config, uint32_t n_rows_max,
                               RowBuffers& buffers) {
  uint32_t n_heads = 0;
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig* a = layer.if_attention();
    if (!a || !a->has_ssmax) continue;
    n_heads = std::max({n_heads, a->n_heads, a->indexer.n_heads});
  }
  if (n_heads > 0) buffers.count(n_rows_max * (n_heads + 1) * sizeof(float));
  return buffers.take(n_rows_max, n_heads);
}

QueryScaling::QueryScaling(Backend& backend, Rows factors)
    : backend_(backend), factors_(factors), host_factors_(size_t{factors.n_rows} * factors.n_cols) {
  if (factors.n_cols > 0) logarithms_.reserve(factors.n_rows);
}

void QueryScaling::prepare(std::span<const uint32_t> positions) {
  if (factors_.n_cols == 0) return;
  logarithms_.clear();
  for (const uint32_t position : positions) {
    logarithms_.push_back(static_cast<float>(std::log(position + 1.0)));
  }
}

void QueryScaling::scale(const SsmaxWeights& weights, Rows q, uint32_t head_dim) {
  const size_t n_heads = weights.scale.size();
  if (n_heads == 0) return;
  CHECK(q.n_rows <= logarithms_.size() && n_heads <= factors_.n_cols);
  for (uint32_t row = 0; row < q.n_rows; ++row) {
    float* out = host_factors_.data() + size_t{row} * factors_.n_cols;
    for (size_t head = 0; head < n_heads; ++head) {
      out[head] = weights.scale[head] * logarithms_[row] + weights.bias[head];
    }
  }
  const auto used = std::span(host_factors_).first(size_t{q.n_rows} * factors_.n_cols);
  backend_.memory().copy_in(reinterpret_cast<std::byte*>(factors_.data), std::as_bytes(used));
  backend_.scale_heads(q, head_dim,
                       factors_.slice(0, q.n_rows).columns(0, static_cast<uint32_t>(n_heads)));
}

}  // namespace kvik
