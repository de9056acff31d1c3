#include "model/per_layer_inputs.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace kvik {

PerLayerInputs::Buffers PerLayerInputs::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  const uint32_t n_cols = config.n_layers * config.per_layer_dim;
  return {.vectors = buffers.take(n_rows_max, n_cols),
          .spare = buffers.take(n_rows_max, n_cols),
          .gated = buffers.take(n_rows_max, config.per_layer_dim)};
}

void PerLayerInputs::begin_step(std::span<const TokenId> tokens, ResidualStream& x) {
  const ModelConfig& c = model_.config();
  const PerLayerEmbedding& w = model_.per_layer();
  buffers_ = own_;
  const Rows vectors = buffers_.vectors.slice(0, x.n_rows());
  const Rows looked_up = buffers_.spare.slice(0, x.n_rows());
  backend_.matmul(x.rows(), *w.projection, vectors);
  backend_.scale(vectors, 1.0f / std::sqrt(static_cast<float>(c.model_dim)));
  backend_.rms_norm(vectors, w.norm.floats(), c.per_layer_dim, c.norm_eps, vectors);
  if (c.n_per_layer_vocab) {
    tokens_.assign(tokens.begin(), tokens.end());
    for (TokenId& token : tokens_) token = token < c.n_per_layer_vocab ? token : 0;
    tokens = tokens_;
  }
  w.table->look_up(backend_, tokens, looked_up);
  backend_.scale(looked_up, std::sqrt(static_cast<float>(c.per_layer_dim)));
  backend_.add(vectors, looked_up);
  backend_.scale(vectors, 1.0f / std::numbers::sqrt2_v<float>);
}

void PerLayerInputs::keep(std::span<const uint32_t> rows) {
  backend_.gather(buffers_.vectors, rows,
                  buffers_.spare.slice(0, static_cast<uint32_t>(rows.size())));
  std::swap(buffers_.vectors, buffers_.spare);
}

Rows PerLayerInputs::gated(uint32_t layer, Rows x) {
  const uint32_t n_cols = model_.config().per_layer_dim;
  const Rows vector = buffers_.vectors.slice(0, x.n_rows).columns(layer * n_cols, n_cols);
  const Rows gated = buffers_.gated.slice(0, x.n_rows);
  backend_.matmul(x, *model_.layers()[layer].per_layer.gate, gated);
  backend_.gated_activation(model_.config().activation, gated, vector, gated);
  return gated;
}

void PerLayerInputs::add(uint32_t layer, ResidualStream& x) {
  const PerLayerWeights& w = model_.layers()[layer].per_layer;
  x.add_projection(gated(layer, x.rows()),
                   {.weights = *w.output, .bias = {}, .post_norm = w.post_norm});
}

}  // namespace kvik
