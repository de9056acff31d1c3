#include "model/streams/hyper_connections.h"

#include <utility>
#include <vector>

namespace kvik {

HyperConnections::Buffers HyperConnections::Buffers::take(const ModelConfig& config,
                                                          uint32_t n_rows_max,
                                                          RowBuffers& buffers) {
  const auto& [n, rank, sinkhorn] = *config.hyper;
  const uint32_t n_weights = sinkhorn ? (2 + n) * n : n;
  return {.streams = buffers.take(n_rows_max, n * config.model_dim),
          .spare = buffers.take(n_rows_max, n * config.model_dim),
          .mixed = buffers.take(n_rows_max, sinkhorn ? 0 : n * config.model_dim),
          .low = buffers.take(n_rows_max, rank),
          .weights = buffers.take(n_rows_max, n_weights),
          .kept = buffers.take(n_rows_max, n_weights),
          .twos = buffers.take(1, sinkhorn ? 0 : n),
          .ones = buffers.take(1, sinkhorn ? n * config.model_dim : 0)};
}

HyperConnections::HyperConnections(const Model& model, Backend& backend, const Buffers& buffers)
    : model_(model),
      backend_(backend),
      own_(buffers),
      buffers_(buffers),
      sinkhorn_(model.config().hyper->sinkhorn),
      n_(model.config().hyper->n),
      dim_(model.config().model_dim) {
  const auto fill = [&](Rows row, float value) {
    const std::vector<float> values(row.n_cols, value);
    if (values.empty()) return;
    backend.memory().copy_in(reinterpret_cast<std::byte*>(row.data),
                             std::as_bytes(std::span(values)));
  };
  fill(own_.twos, 2.0f);
  fill(own_.ones, 1.0f);
}

void HyperConnections::begin_step(ResidualStream& x) {
  buffers_ = own_;
  const Rows all = streams(x.n_rows());
  for (uint32_t j = 0; j < n_; ++j) {
    backend_.copy_heads({x.rows(), 1, 0, 0, dim_}, {all.columns(j * dim_, dim_), 1, 0, 0, dim_});
  }
}

Rows HyperConnections::begin_step(uint32_t n_rows) {
  buffers_ = own_;
  return {own_.streams.data, n_rows * n_, dim_, dim_};
}

void HyperConnections::norm(Rows streams, const Buffer& weights, Rows out) {
  for (uint32_t j = 0; j < n_; ++j) {
    backend_.rms_norm(streams.columns(j * dim_, dim_), weights.floats() + size_t{j} * dim_, dim_,
                      model_.config().norm_eps, out.columns(j * dim_, dim_));
  }
}

Rows HyperConnections::mix(const HyperWeights& w, ResidualStream& x) {
  const uint32_t n_rows = x.n_rows();
  const float share = 1.0f / static_cast<float>(n_);
  const Rows normed = buffers_.spare.slice(0, n_rows);
  const Rows mixed = buffers_.mixed.slice(0, n_rows);
  const Rows low = buffers_.low.slice(0, n_rows);
  norm(streams(n_rows), w.norm, normed);
  backend_.matmul(normed, *w.down, low);
  backend_.scale(low, share);
  backend_.gated_activation(Activation::kSigmoid, low, low, low);  // SiLU
  backend_.matmul(low, *w.up, mixed);
  backend_.gated_activation(Activation::kSigmoid, mixed, normed, mixed);
  const Rows input = x.begin_half();
  backend_.clear(input);
  for (uint32_t j = 0; j < n_; ++j) backend_.add(input, mixed.columns(j * dim_, dim_));
  backend_.scale(input, share);
  return normed;
}

void HyperConnections::collapse(const HyperWeights& w, uint32_t n_iterations, ResidualStream& x) {
  const Rows all = streams(x.n_rows());
  const Rows normed = buffers_.spare.slice(0, x.n_rows());
  const StreamWeightShape shape{.n = n_,
                                .n_iterations = n_iterations,
                                .eps = sinkhorn_->eps,
                                .base = w.base,
                                .scales = w.scales};
  const Rows weights = buffers_.weights.slice(0, x.n_rows()).columns(0, shape.n_cols());
  backend_.rms_norm(all, own_.ones.data, n_ * dim_, model_.config().norm_eps, normed);
  backend_.matmul(normed, *w.projection, weights);
  backend_.stream_weights(weights, shape);
  const Rows input = x.begin_half();
  backend_.clear(input);
  backend_.add_weighted_heads(input, all, weights.columns(0, n_));
}

void HyperConnections::begin(const HyperWeights& w, ResidualStream& x) {
  if (sinkhorn_) return collapse(w, sinkhorn_->n_iterations, x);
  const Rows normed = mix(w, x);
  const Rows weights = buffers_.weights.slice(0, x.n_rows());
  backend_.matmul(normed, *w.inject, weights);
  backend_.scale(weights, 1.0f / static_cast<float>(n_));
  const Rows twos{buffers_.twos.data, x.n_rows(), n_, 0};
  backend_.gated_activation(Activation::kSigmoid, weights, twos, weights);
}

void HyperConnections::end(const ResidualStream& x) {
  const Rows all = streams(x.n_rows());
  const Rows weights = buffers_.weights.slice(0, x.n_rows());
  if (!sinkhorn_) {
    for (uint32_t j = 0; j < n_; ++j) {
      backend_.add_weighted_heads(stream(all, j), x.rows(), weights.columns(j, 1));
    }
    return;
  }
  const Rows mixed = buffers_.spare.slice(0, x.n_rows());
  backend_.clear(mixed);
  for (uint32_t j = 0; j < n_; ++j) {
    backend_.add_weighted_heads(stream(mixed, j), all, weights.columns((2 + j) * n_, n_));
    backend_.add_weighted_heads(stream(mixed, j), x.rows(), weights.columns(n_ + j, 1));
  }
  std::swap(buffers_.streams, buffers_.spare);
}

void HyperConnections::finish(const HyperWeights& w, ResidualStream& x) {
  if (!sinkhorn_) {
    mix(w, x);
  } else if (sinkhorn_->has_output_weights) {
    collapse(w, 0, x);
  } else {
    const Rows input = x.begin_half();
    backend_.clear(input);
    for (uint32_t j = 0; j < n_; ++j) backend_.add(input, stream(streams(x.n_rows()), j));
    backend_.scale(input, 1.0f / static_cast<float>(n_));
  }
  x.set_to_input();
}

void HyperConnections::keep(std::span<const uint32_t> rows) {
  const auto n_rows = static_cast<uint32_t>(rows.size());
  backend_.gather(buffers_.streams, rows, buffers_.spare.slice(0, n_rows));
  std::swap(buffers_.streams, buffers_.spare);
  backend_.gather(buffers_.weights, rows, buffers_.kept.slice(0, n_rows));
  std::swap(buffers_.weights, buffers_.kept);
}

}  // namespace kvik
