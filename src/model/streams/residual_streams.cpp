#include "model/streams/residual_streams.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace kvik {

ResidualStreams::Buffers ResidualStreams::Buffers::take(const ModelConfig& config,
                                                        uint32_t n_rows_max, RowBuffers& buffers) {
  const auto [n, rank] = *config.streams;
  return {.streams = buffers.take(n_rows_max, n * config.model_dim),
          .spare = buffers.take(n_rows_max, n * config.model_dim),
          .laurel = buffers.take(n_rows_max, config.model_dim),
          .laurel_down = buffers.take(n_rows_max, rank),
          .change = buffers.take(n_rows_max, config.model_dim),
          .modes = buffers.take(n_rows_max, n),
          .coefficients = buffers.take(n_rows_max, n * n)};
}

ResidualStreams::ResidualStreams(const Model& model, Backend& backend, const Buffers& buffers)
    : model_(model),
      backend_(backend),
      own_(buffers),
      buffers_(buffers),
      n_(model.config().streams->n),
      dim_(model.config().model_dim),
      all_rows_(buffers.streams.n_rows),
      ones_(backend.memory().allocate(n_ * sizeof(float))) {
  std::iota(all_rows_.begin(), all_rows_.end(), 0);
  const std::vector<float> ones(n_, 1.0f);
  backend.memory().copy_in(ones_.data(), std::as_bytes(std::span(ones)));
}

void ResidualStreams::begin_step(const ResidualStream& x) {
  buffers_ = own_;
  const uint32_t n_rows = x.n_rows();
  const Rows all = buffers_.streams.slice(0, n_rows);
  copy(x.rows(), stream(0, n_rows));
  backend_.head_matmul({x.rows(), n_ - 1, 0, 0, dim_}, *model_.streams().in,
                       {all, n_ - 1, dim_, dim_, dim_});
  for (uint32_t j = 1; j < n_; ++j) backend_.match_magnitude(stream(j, n_rows), x.rows());
}

// Returns m(x). Overwrites buffers_.change.
Rows ResidualStreams::modes_of(const StreamWeights& w, Rows x) {
  const Rows normed = buffers_.change.slice(0, x.n_rows);
  const Rows modes = buffers_.modes.slice(0, x.n_rows);
  backend_.rms_norm(x, w.norm.floats(), dim_, model_.config().norm_eps, normed);
  backend_.scale(normed, 1.0f / static_cast<float>(dim_));
  backend_.matmul(normed, *w.router, modes);
  backend_.soft_cap(modes, 1.0f);
  return modes;
}

void ResidualStreams::predict(uint32_t layer, ResidualStream& x) {
  const StreamWeights& w = model_.layers()[layer].streams;
  const uint32_t n_rows = x.n_rows();
  const Rows all = buffers_.streams.slice(0, n_rows);
  const Rows coefficients = buffers_.coefficients.slice(0, n_rows);
  backend_.matmul(modes_of(w, stream(0, n_rows)), *w.predict, coefficients);
  const Rows predicted = buffers_.spare.slice(0, n_rows);
  copy(all, predicted);
  for (uint32_t j = 0; j < n_; ++j) {
    backend_.add_weighted_heads(predicted.columns(j * dim_, dim_), all,
                                coefficients.columns(j * n_, n_));
  }
  std::swap(buffers_.streams, buffers_.spare);
  copy(stream(0, n_rows), x.rows());

  const Rows normed = x.normed(model_.layers()[layer].attention.norm);
  const Rows down = buffers_.laurel_down.slice(0, n_rows);
  const Rows laurel = buffers_.laurel.slice(0, n_rows);
  backend_.matmul(normed, *w.laurel_down, down);
  backend_.matmul(down, *w.laurel_up, laurel);
  backend_.rms_norm(laurel, w.laurel_norm.floats(), dim_, model_.config().norm_eps, laurel);
  backend_.add(laurel, normed);
}

void ResidualStreams::join(ResidualStream& x) {
  backend_.add(x.rows(), buffers_.laurel.slice(0, x.n_rows()));
  backend_.scale(x.rows(), 1.0f / std::numbers::sqrt2_v<float>);
}

void ResidualStreams::correct(uint32_t layer, const ResidualStream& x, PerLayerInputs& inputs) {
  const StreamWeights& w = model_.layers()[layer].streams;
  const uint32_t n_rows = x.n_rows();
  const Rows factors = buffers_.coefficients.slice(0, n_rows).columns(0, n_);
  backend_.matmul(modes_of(w, x.rows()), *w.correct, factors);
  backend_.add_bias(factors, ones_.floats());
  const Rows change = buffers_.change.slice(0, n_rows);
  copy(stream(0, n_rows), change);
  backend_.scale(change, -1.0f);
  backend_.add(change, x.rows());
  for (uint32_t j = 0; j < n_; ++j) {
    backend_.add_weighted_heads(stream(j, n_rows), change, factors.columns(j, 1));
  }
  add_inputs(layer, n_rows, inputs);
}

void ResidualStreams::add_inputs(uint32_t layer, uint32_t n_rows, PerLayerInputs& inputs) {
  const LayerWeights& w = model_.layers()[layer];
  const Rows scaled = buffers_.change.slice(0, n_rows);
  copy(stream(0, n_rows), scaled);
  backend_.scale_columns(scaled, std::span(all_rows_).first(n_rows), w.streams.scale.floats());
  const Rows gated = inputs.gated(layer, scaled);
  backend_.matmul(gated, *w.per_layer.output, scaled);
  backend_.rms_norm(scaled, w.per_layer.post_norm.floats(), dim_, model_.config().post_norm_eps,
                    scaled);
  for (uint32_t j = 1; j < n_; ++j) backend_.add(stream(j, n_rows), scaled);
}

void ResidualStreams::finish(ResidualStream& x) {
  const uint32_t n_rows = x.n_rows();
  const Rows all = buffers_.streams.slice(0, n_rows);
  const Rows projected = buffers_.spare.slice(0, n_rows);
  backend_.head_matmul({all, n_ - 1, dim_, dim_, dim_}, *model_.streams().out,
                       {projected, n_ - 1, dim_, dim_, dim_});
  copy(stream(0, n_rows), x.rows());
  for (uint32_t j = 1; j < n_; ++j) {
    const Rows other = projected.columns(j * dim_, dim_);
    backend_.match_magnitude(other, stream(0, n_rows));
    backend_.add(x.rows(), other);
  }
  backend_.scale(x.rows(), 1.0f / static_cast<float>(n_));
}

void ResidualStreams::keep(std::span<const uint32_t> rows) {
  const auto n_rows = static_cast<uint32_t>(rows.size());
  backend_.gather(buffers_.streams, rows, buffers_.spare.slice(0, n_rows));
  std::swap(buffers_.streams, buffers_.spare);
  backend_.gather(buffers_.laurel, rows, buffers_.change.slice(0, n_rows));
  std::swap(buffers_.laurel, buffers_.change);
}

}  // namespace kvik
