#include "model/decoder.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {
namespace {

// Rows of logits computed at once: more would only take memory.
constexpr uint32_t kLogitRows = 32;

uint32_t logit_rows(uint32_t n_rows_max) { return std::min(kLogitRows, n_rows_max); }

}  // namespace

Decoder::Decoder(const Model& model, Backend& backend, KvType kv_type, uint32_t n_rows_max)
    : model_(model),
      backend_(backend),
      kv_geometry_(model.kv_geometry(kv_type)),
      groups_(group_layers(model.config())),
      n_rows_max_(n_rows_max),
      ropes_(backend.memory(), model.config(), model.rope_divisors(), n_rows_max),
      router_(model.config().experts, n_rows_max) {
  const ModelConfig& c = model.config();
  x_ = allocate(x_buffer_, n_rows_max, c.model_dim);
  normed_ = allocate(normed_buffer_, n_rows_max, c.model_dim);
  qkv_ = allocate(qkv_buffer_, n_rows_max, c.q_dim() + 2 * c.kv_dim());
  wanted_q_ = allocate(wanted_q_buffer_, n_rows_max, c.q_dim());
  heads_ = allocate(heads_buffer_, n_rows_max, c.q_dim());
  gate_up_ = allocate(gate_up_buffer_, n_rows_max, 2 * c.mlp_dim());
  if (c.has_experts()) {
    const ExpertsConfig& e = c.experts;
    CHECK(!c.has_post_norms && c.residual_scale == 1.0f);  // no family has both
    const uint32_t n_columns = ExpertRouter::n_columns(e);
    scores_ = allocate(scores_buffer_, n_rows_max, n_columns);
    host_scores_.resize(size_t{n_rows_max} * n_columns);
    expert_gate_up_ = allocate(expert_gate_up_buffer_, n_rows_max * e.n_used, 2 * e.ffn_dim);
    expert_out_ = allocate(expert_out_buffer_, n_rows_max * e.n_used, c.model_dim);
  }
  logits_ = allocate(logits_buffer_, logit_rows(n_rows_max), c.n_vocab);
  host_logits_.resize(size_t{logits_.n_rows} * c.n_vocab);
  host_hidden_.resize(c.model_dim);
  tokens_.reserve(n_rows_max);
  positions_.reserve(n_rows_max);
  wanted_.reserve(n_rows_max);
  runs_.reserve(n_rows_max);
  wanted_runs_.reserve(n_rows_max);
}

uint64_t Decoder::buffer_bytes(const ModelConfig& c, uint32_t n_rows_max) {
  const uint64_t qkv_dim = c.q_dim() + uint64_t{2} * c.kv_dim();
  const ExpertsConfig& e = c.experts;
  const uint64_t of_experts =
      ExpertRouter::n_columns(e) + uint64_t{e.n_used} * (2 * uint64_t{e.ffn_dim} + c.model_dim);
  const uint64_t n_columns = 2 * uint64_t{c.model_dim} + qkv_dim + 2 * uint64_t{c.q_dim()} +
                             2 * uint64_t{c.mlp_dim()} + (c.has_experts() ? of_experts : 0);
  // Here and on the host; and a hidden state there.
  const uint64_t outputs = uint64_t{2} * logit_rows(n_rows_max) * c.n_vocab + c.model_dim;
  const uint64_t routing = c.has_experts() ? ExpertRouter::buffer_bytes(e, n_rows_max) : 0;
  return (n_rows_max * n_columns + outputs) * sizeof(float) + RopeTables::bytes(c, n_rows_max) +
         routing;
}

Rows Decoder::allocate(Buffer& buffer, uint32_t n_rows, uint32_t n_cols) {
  buffer = backend_.memory().allocate(size_t{n_rows} * n_cols * sizeof(float));
  return {buffer.floats(), n_rows, n_cols, n_cols};
}

void Decoder::forward(std::span<const BatchSequence> batch) {
  lay_out(batch);
  const ModelConfig& c = model_.config();
  Rows x = x_.slice(0, static_cast<uint32_t>(tokens_.size()));
  backend_.embed(model_.embedding(), tokens_, x);
  if (c.embedding_scale != 1.0f) backend_.scale(x, c.embedding_scale);
  ropes_.prepare(positions_);
  for (uint32_t layer = 0; layer < c.n_layers; ++layer) {
    write_kv(layer, x);
    // Behind the last layer's K and V, rows without logits have nothing left to give.
    if (layer + 1 == c.n_layers) x = keep_wanted(x);
    if (x.n_rows == 0) break;
    attend(layer, x);
    mlp(model_.layers()[layer], x);
  }
  last_ = x;
  first_projected_.reset();
  if (first_logits_) static_cast<void>(logits(*first_logits_));
}

// Puts the sequences' tokens one behind the other as rows.
void Decoder::lay_out(std::span<const BatchSequence> batch) {
  tokens_.clear();
  positions_.clear();
  runs_.resize(groups_.n_groups());
  wanted_runs_.resize(groups_.n_groups());
  for (auto& runs : runs_) runs.clear();
  for (auto& runs : wanted_runs_) runs.clear();
  wanted_.clear();
  first_logits_.reset();
  for (const BatchSequence& sequence : batch) {
    const auto first_row = static_cast<uint32_t>(tokens_.size());
    const auto n_rows = static_cast<uint32_t>(sequence.tokens.size());
    CHECK(n_rows > 0 && sequence.kv.groups.size() == groups_.n_groups());
    for (uint32_t i = 0; i < n_rows; ++i) positions_.push_back(sequence.first_position + i);
    tokens_.insert(tokens_.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (uint32_t g = 0; g < groups_.n_groups(); ++g) {
      runs_[g].push_back({sequence.kv.groups[g], sequence.first_position, first_row, n_rows});
    }
    const uint32_t n_wanted = std::min(sequence.want.n_last, n_rows);
    if (n_wanted == 0) continue;
    if (!sequence.want.is_hidden && !first_logits_)
      first_logits_ = static_cast<uint32_t>(wanted_.size());
    for (uint32_t g = 0; g < groups_.n_groups(); ++g) {
      wanted_runs_[g].push_back({sequence.kv.groups[g], sequence.first_position + n_rows - n_wanted,
                                 static_cast<uint32_t>(wanted_.size()), n_wanted});
    }
    for (uint32_t i = n_rows - n_wanted; i < n_rows; ++i) wanted_.push_back(first_row + i);
  }
  CHECK(!tokens_.empty() && tokens_.size() <= n_rows_max_);
}

// Q, K and V of norm(x); K and V go to their pages, where attention finds them.
void Decoder::write_kv(uint32_t layer, Rows x) {
  const ModelConfig& c = model_.config();
  const LayerWeights& w = model_.layers()[layer];
  const Rows qkv = qkv_.slice(0, x.n_rows);
  const Rows q = qkv.columns(0, c.q_dim());
  const Rows k = qkv.columns(c.q_dim(), c.kv_dim());
  const Rows v = qkv.columns(c.q_dim() + c.kv_dim(), c.kv_dim());

  backend_.matmul(normed_input(w.attention_norm, x), *w.qkv, qkv);
  if (c.has_qkv_bias) backend_.add_bias(qkv, w.qkv_bias.floats());
  if (c.qk_norm != QkNorm::kNone) {
    backend_.rms_norm(q, w.q_norm.floats(), c.q_norm_dim(), c.norm_eps, q);
    backend_.rms_norm(k, w.k_norm.floats(), c.k_norm_dim(), c.norm_eps, k);
  }
  const uint32_t rope = c.layers[layer].rope;
  backend_.rope(qkv.columns(0, c.q_dim() + c.kv_dim()), c.head_dim, ropes_.pairing(rope),
                ropes_.angles(rope));
  const auto [group, place] = groups_.places[layer];
  backend_.write_kv({.geometry = kv_geometry_, .layer = place, .runs = runs_[group]}, k, v);
  q_ = q;
  attending_ = &runs_;
}

// The rows of x that get logits, side by side; their q with them.
Rows Decoder::keep_wanted(Rows x) {
  if (wanted_.size() == x.n_rows) return x;
  const auto n_wanted = static_cast<uint32_t>(wanted_.size());
  backend_.gather(x, wanted_, normed_.slice(0, n_wanted));
  std::swap(x_, normed_);
  const Rows q = wanted_q_.slice(0, n_wanted);
  backend_.gather(q_, wanted_, q);
  q_ = q;
  attending_ = &wanted_runs_;
  return x_.slice(0, n_wanted);
}

// x += output(attention(q, pages))
void Decoder::attend(uint32_t layer, Rows x) {
  const ModelConfig& c = model_.config();
  const LayerWeights& w = model_.layers()[layer];
  const Rows heads = heads_.slice(0, x.n_rows);
  const auto [group, place] = groups_.places[layer];
  backend_.attention({.geometry = kv_geometry_, .layer = place, .runs = (*attending_)[group]},
                     {.n_heads = c.n_heads,
                      .scale = c.attention_scale,
                      .soft_cap = c.attention_soft_cap,
                      .window = c.layers[layer].window},
                     q_, heads);
  add_projection(heads, *w.output, w.post_attention_norm, x);
}

// What a layer's half begins with: x, normed where the model norms it.
Rows Decoder::normed_input(const Buffer& norm, Rows x) {
  const ModelConfig& c = model_.config();
  if (!c.has_pre_norms) return x;
  const Rows normed = normed_.slice(0, x.n_rows);
  backend_.rms_norm(x, norm.floats(), c.model_dim, c.norm_eps, normed);
  return normed;
}

// x += residual_scale · norm(y · wᵀ), without what the model lacks of that.
void Decoder::add_projection(Rows y, const PackedMatrix& w, const Buffer& post_norm, Rows x) {
  const ModelConfig& c = model_.config();
  if (!c.has_post_norms && c.residual_scale == 1.0f) {
    backend_.matmul_add(y, w, x);
    return;
  }
  const Rows out = normed_.slice(0, x.n_rows);
  backend_.matmul(y, w, out);
  if (c.has_post_norms) {
    backend_.rms_norm(out, post_norm.floats(), c.model_dim, c.norm_eps, out);
  }
  if (c.residual_scale != 1.0f) backend_.scale(out, c.residual_scale);
  backend_.add(x, out);
}

// x += down(activation(gate(norm(x))) · up(norm(x)))  (Shazeer 2020), and what the experts add.
void Decoder::mlp(const LayerWeights& w, Rows x) {
  const ModelConfig& c = model_.config();
  const Rows in = normed_input(w.ffn_norm, x);
  const Rows gate_up = gate_up_.slice(0, x.n_rows);
  const Rows gate = gate_up.columns(0, c.mlp_dim());
  if (c.mlp_dim() > 0) {
    backend_.matmul(in, *w.gate_up, gate_up);
    backend_.gated_activation(c.activation, gate, gate_up.columns(c.mlp_dim(), c.mlp_dim()), gate);
  }
  if (c.has_experts()) {
    experts(w, in, x);
  } else {
    add_projection(gate, *w.down, w.post_ffn_norm, x);
  }
}

// Each row through the experts that its router chooses (Shazeer et al. 2017), and through the one
// that all share, whose gate_up() is there already.
void Decoder::experts(const LayerWeights& w, Rows in, Rows x) {
  const ModelConfig& c = model_.config();
  const uint32_t ffn_dim = c.experts.ffn_dim;
  const Rows scores = scores_.slice(0, x.n_rows);
  backend_.matmul(in, *w.router, scores);
  const auto host = std::span(host_scores_).first(size_t{x.n_rows} * scores.n_cols);
  backend_.memory().copy_out(std::as_writable_bytes(host), scores_buffer_.data());
  router_.route(host, x.n_rows);

  const Rows gate_up = expert_gate_up_.slice(0, x.n_rows * c.experts.n_used);
  const Rows gate = gate_up.columns(0, ffn_dim);
  const Rows out = expert_out_.slice(0, gate_up.n_rows);
  backend_.grouped_matmul(in, *w.expert_gate_up, router_.grouped(), gate_up);
  backend_.gated_activation(c.activation, gate, gate_up.columns(ffn_dim, ffn_dim), gate);
  backend_.grouped_matmul(gate, *w.expert_down, router_.grouped_in_order(), out);
  backend_.add_weighted(x, out, router_.taken());
  if (c.mlp_dim() == 0) return;
  const Rows shared = out.slice(0, x.n_rows);
  backend_.matmul(gate_up_.slice(0, x.n_rows).columns(0, c.mlp_dim()), *w.down, shared);
  backend_.add_weighted(x, shared, router_.shared());
}

std::span<const float> Decoder::logits(size_t row) {
  CHECK(row < wanted_.size());
  const auto first = static_cast<uint32_t>(row) / logits_.n_rows * logits_.n_rows;
  if (first != first_projected_) project(first);
  const size_t n_vocab = model_.config().n_vocab;
  return std::span(host_logits_).subspan((row - first) * n_vocab, n_vocab);
}

std::span<const float> Decoder::hidden(size_t row) {
  CHECK(row < wanted_.size());
  const ModelConfig& c = model_.config();
  const Rows normed = normed_.slice(0, 1);
  backend_.rms_norm(last_.slice(static_cast<uint32_t>(row), 1), model_.output_norm(), c.model_dim,
                    c.norm_eps, normed);
  backend_.memory().copy_out(std::as_writable_bytes(std::span(host_hidden_)),
                             reinterpret_cast<const std::byte*>(normed.data));
  return host_hidden_;
}

// Logits of the wanted rows from first_row on, as many as the buffer holds: all of them at once
// would take as much memory as a small model where every token of a prompt wants its own.
void Decoder::project(uint32_t first_row) {
  const ModelConfig& c = model_.config();
  const auto n = std::min(static_cast<uint32_t>(wanted_.size()) - first_row, logits_.n_rows);
  const Rows normed = normed_.slice(0, n);
  const Rows out = logits_.slice(0, n);
  backend_.rms_norm(last_.slice(first_row, n), model_.output_norm(), c.model_dim, c.norm_eps,
                    normed);
  backend_.matmul(normed, model_.head(), out);
  if (c.logit_scale != 1.0f) backend_.scale(out, c.logit_scale);
  if (c.logit_soft_cap > 0) backend_.soft_cap(out, c.logit_soft_cap);
  const auto host = std::span(host_logits_).first(size_t{n} * c.n_vocab);
  backend_.memory().copy_out(std::as_writable_bytes(host), logits_buffer_.data());
  first_projected_ = first_row;
}

}  // namespace kvik
