#include "model/experts_block.h"

#include <algorithm>
#include <cmath>

namespace kvik {

ExpertsBlock::Buffers ExpertsBlock::Buffers::take(const ModelConfig& config, uint32_t n_rows_max,
                                                  RowBuffers& buffers) {
  const ExpertsConfig e = config.widest_experts();
  const uint32_t n_parts = GatedProduct::n_parts(config.activation);
  buffers.count(ExpertRouter::buffer_bytes(e, n_rows_max));
  return {.scores = buffers.take(n_rows_max, ExpertRouter::n_columns(e)),
          .shared_gate_up =
              buffers.take(n_rows_max, n_parts * std::max(e.shared_ffn_dim, e.parallel_ffn_dim)),
          .beside = buffers.take(n_rows_max, e.parallel_ffn_dim ? config.model_dim : 0),
          .gate_up = buffers.take(n_rows_max * e.n_used, n_parts * e.ffn_dim),
          .out = buffers.take(n_rows_max * e.n_used, std::max(config.model_dim, e.latent_dim)),
          .latent = buffers.take(n_rows_max, e.latent_dim)};
}

ExpertsBlock::ExpertsBlock(Backend& backend, const ModelConfig& config, const Buffers& buffers)
    : backend_(backend),
      model_(config),
      widest_(config.widest_experts()),
      buffers_(buffers),
      shared_(backend, config.activation, buffers.shared_gate_up),
      chosen_(backend, config.activation, buffers.gate_up),
      router_(widest_, buffers.scores.n_rows),
      host_scores_(size_t{buffers.scores.n_rows} * buffers.scores.n_cols) {
  kept_tokens_.reserve(buffers.scores.n_rows);
}

void ExpertsBlock::keep(std::span<const uint32_t> rows) {
  kept_tokens_.clear();
  for (const uint32_t row : rows) kept_tokens_.push_back(tokens_[row]);
  tokens_ = kept_tokens_;
}

void ExpertsBlock::forward(const ExpertsConfig& config, const FeedForwardWeights& w,
                           const Buffer& norm, ResidualStream& x) {
  config_ = &config;
  router_.set_config(config);
  if (config_->parallel_ffn_dim) return forward_parallel(w, x);
  const uint32_t n_rows = x.n_rows();
  const Rows in = x.normed(norm);
  Rows shared;
  if (w.gate_up) shared = shared_.product(in, *w.gate_up, w.activation);
  route(w, in);
  if (config_->weighs_input) backend_.scale_rows(in, router_.input_weights());
  const Rows latent = buffers_.latent.slice(0, n_rows).columns(0, config_->latent_dim);
  if (w.latent_down) backend_.matmul(in, *w.latent_down, latent);
  const Rows chosen = chosen_output(w, w.latent_down ? latent : in);
  const Rows sum = x.begin_sum(w.post_norm);
  if (w.latent_down) {
    backend_.clear(latent);
    backend_.add_weighted(latent, chosen, taken());
    backend_.matmul_add(latent, *w.latent_up, sum);
  } else {
    backend_.add_weighted(sum, chosen, taken());
  }
  if (w.gate_up) {
    const Rows out = buffers_.out.slice(0, n_rows).columns(0, model_.model_dim);
    backend_.matmul(shared, *w.down, out);
    if (config_->shared_scale != 1.0f) backend_.scale(out, config_->shared_scale);
    backend_.add_weighted(sum, out, this->shared());
  }
  x.end_sum(sum, w.post_norm);
}

void ExpertsBlock::forward_parallel(const FeedForwardWeights& w, ResidualStream& x) {
  const auto norm = [&](Rows rows, const Buffer& weights) {
    backend_.rms_norm(rows, weights.floats(), model_.model_dim, model_.norm_eps, rows);
  };
  const Rows beside = buffers_.beside.slice(0, x.n_rows());
  backend_.matmul(shared_.product(x.normed(w.norm), *w.gate_up, {}), *w.down, beside);
  norm(beside, w.mlp_post_norm);
  route(w, x.normed(w.router_norm));
  const Rows out = chosen_output(w, x.normed(w.experts_norm));
  const Rows sum = x.begin_sum(w.post_norm);
  backend_.add_weighted(sum, out, taken());
  norm(sum, w.experts_post_norm);
  backend_.add(sum, beside);
  x.end_sum(sum, w.post_norm);
}

void ExpertsBlock::route(const FeedForwardWeights& w, Rows in) {
  // Without gaps between the rows, which are copied to the host.
  const uint32_t n_scores = ExpertRouter::n_columns(*config_);
  const Rows scores{buffers_.scores.data, in.n_rows, n_scores, n_scores};
  backend_.matmul(in, *w.router, scores);
  if (config_->parallel_ffn_dim) {
    backend_.scale(scores, 1.0f / std::sqrt(static_cast<float>(model_.model_dim)));
  }
  if (w.score_bias.size() > 0) {
    backend_.add_bias(scores.columns(0, config_->n_experts), w.score_bias.floats());
  }
  const bool is_sigmoid = config_->scoring == ExpertScoring::kSigmoid;
  const bool is_routed = !config_->weighs_input &&
                         config_->scoring != ExpertScoring::kSqrtSoftplus &&
                         backend_.route({.n_experts = config_->n_experts,
                                         .n_used = config_->n_used,
                                         .n_groups = config_->n_groups,
                                         .n_groups_used = config_->n_groups_used,
                                         .is_sigmoid = is_sigmoid,
                                         .normalizes = config_->normalizes,
                                         .has_shared_gate = config_->has_shared_gate,
                                         .weight_scale = config_->weight_scale,
                                         .correction_bias = w.correction_bias,
                                         .factors = w.expert_factors},
                                        scores);
  n_routed_ = is_routed ? in.n_rows * config_->n_used : 0;
  if (is_routed) return;
  const auto host = std::span(host_scores_).first(size_t{in.n_rows} * scores.n_cols);
  backend_.memory().copy_out(std::as_writable_bytes(host),
                             reinterpret_cast<const std::byte*>(scores.data));
  router_.route(host, in.n_rows,
                {.correction_bias = w.correction_bias,
                 .factors = w.expert_factors,
                 .table = w.token_table,
                 .tokens = tokens_});
}

GroupedRows ExpertsBlock::of_router(Routed routed) const {
  if (n_routed_ > 0) {
    return {.n_matrices = config_->n_experts, .routed = routed, .n_routed = n_routed_};
  }
  return routed == Routed::kChosen ? router_.grouped() : router_.grouped_in_order();
}

WeightedRows ExpertsBlock::taken() const {
  if (n_routed_ > 0) return {.n = config_->n_used, .routed = Routed::kChosen};
  return router_.taken();
}

WeightedRows ExpertsBlock::shared() const {
  if (n_routed_ > 0) return {.n = 1, .routed = Routed::kShared};
  return router_.shared();
}

Rows ExpertsBlock::chosen_output(const FeedForwardWeights& w, Rows in) {
  const Rows out = buffers_.out.slice(0, in.n_rows * config_->n_used).columns(0, in.n_cols);
  const Rows gated = chosen_.grouped_product(
      in, *w.expert_gate_up, {.limit = w.expert_limit, .limits_gate = config_->limits_gate},
      w.expert_gate_up_bias, grouped());
  backend_.grouped_matmul(gated, *w.expert_down, grouped_in_order(), out);
  if (w.expert_down_bias.size() > 0) {
    backend_.add_grouped_bias(out, w.expert_down_bias.floats(), grouped_in_order());
  }
  return out;
}

}  // namespace kvik
