#include "model/encode/encoder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/mlp_block.h"

namespace kvik {
namespace {

constexpr uint32_t kNoScores = UINT32_MAX;

KvGeometry geometry_of(const AttentionConfig& a) {
  return {.type = KvType::kF32, .n_layers = 1, .n_kv_heads = a.n_kv_heads, .head_dim = a.head_dim};
}

size_t page_bytes_of(const ModelConfig& config, const Backend& backend) {
  size_t most = 0;
  for (const LayerConfig& layer : config.layers) {
    most = std::max(most, backend.page_bytes(geometry_of(layer.attention())));
  }
  return most;
}

size_t n_pages_of(const Encoder::Limits& limits) {
  return size_t{limits.n_rows} / kPageTokens + limits.n_texts;
}

void copy_to_host(Backend& backend, Rows rows, std::vector<float>& out) {
  out.resize(size_t{rows.n_rows} * rows.n_cols);
  backend.memory().copy_out(std::as_writable_bytes(std::span(out)),
                            reinterpret_cast<const std::byte*>(rows.data));
}

}  // namespace

Encoder::Buffers Encoder::Buffers::take(const ModelConfig& config, const Limits& limits,
                                        RowBuffers& buffers) {
  uint32_t qkv_dim = 0;
  uint32_t q_dim = 0;
  for (const LayerConfig& layer : config.layers) {
    qkv_dim = std::max(qkv_dim, layer.attention().qkv_dim());
    q_dim = std::max(q_dim, layer.attention().q_dim());
  }
  const uint32_t n_labels = config.encoder->n_labels;
  const uint32_t n_pooled = n_labels > 0 ? limits.n_texts : 0;
  buffers.count(RopeTables::bytes(config, limits.n_rows));
  buffers.count(uint64_t{limits.n_rows} * config.model_dim * sizeof(float));  // states_
  return {.x = buffers.take(limits.n_rows, config.model_dim),
          .spare = buffers.take(limits.n_rows, config.model_dim),
          .qkv = buffers.take(limits.n_rows, qkv_dim),
          .heads = buffers.take(limits.n_rows, q_dim),
          .mlp = MlpBlock::take_buffer(config, limits.n_rows, buffers),
          .pooled = buffers.take(n_pooled, config.model_dim),
          .dense = buffers.take(n_pooled, config.model_dim),
          .scores = buffers.take(n_pooled, n_labels)};
}

uint64_t Encoder::buffer_bytes(const ModelConfig& config, const Limits& limits,
                               const Backend& backend) {
  RowBuffers counted(nullptr);
  Buffers::take(config, limits, counted);
  return counted.bytes() + n_pages_of(limits) * page_bytes_of(config, backend);
}

WorkLimits Encoder::work_limits(const ModelConfig& config, std::vector<WeightKind> kinds,
                                const Limits& limits) {
  std::vector<HeadsUse> heads;
  for (const LayerConfig& layer : config.layers) {
    heads.push_back({geometry_of(layer.attention()), layer.attention().n_heads});
  }
  return {.n_rows = limits.n_rows,
          .n_sequences = limits.n_texts,
          .weights = std::move(kinds),
          .heads = std::move(heads),
          .n_ctx = limits.n_rows};
}

Encoder::Encoder(const Model& model, Backend& backend, const Limits& limits)
    : model_(model),
      backend_(backend),
      memory_(&backend.memory()),
      buffers_(Buffers::take(model.config(), limits, memory_)),
      gated_(backend, model.config().activation, buffers_.mlp),
      ropes_(backend.memory(), model.config(), model.rope_divisors(), limits.n_rows),
      page_bytes_(page_bytes_of(model.config(), backend)),
      pages_(backend.memory().allocate(n_pages_of(limits) * page_bytes_)) {
  CHECK(model.config().encoder && backend.can_encode());
  backend.reserve(work_limits(model.config(), model.weight_kinds(), limits));
}

bool Encoder::forward(std::span<const EncoderText> batch,
                      const std::function<bool()>& is_interrupted) {
  lay_out(batch);
  const ModelConfig& c = model_.config();
  backend_.begin_step();
  ropes_.prepare(positions_);
  embed();
  for (uint32_t layer = 0; layer < c.n_layers; ++layer) {
    if (is_interrupted()) {
      backend_.wait();
      return false;
    }
    attend(layer);
    feed_forward(layer);
  }
  const Rows last = normed(x(), model_.output_norm(), spare());
  if (!first_rows_.empty()) classify(last);
  backend_.wait();
  copy_to_host(backend_, last, states_);
  return true;
}

void Encoder::lay_out(std::span<const EncoderText> batch) {
  const bool has_types = model_.config().encoder->n_token_types > 1;
  tokens_.clear();
  types_.clear();
  positions_.clear();
  page_table_.clear();
  runs_.clear();
  first_rows_.clear();
  score_rows_.clear();
  size_t n_pages = 0;
  for (const EncoderText& text : batch) {
    CHECK(!text.tokens.empty());
    n_pages += (text.tokens.size() + kPageTokens - 1) / kPageTokens;
  }
  CHECK(n_pages * page_bytes_ <= pages_.size());
  for (size_t page = 0; page < n_pages; ++page) {
    page_table_.push_back(pages_.data() + page * page_bytes_);
  }
  size_t first_page = 0;
  for (const EncoderText& text : batch) {
    const auto first_row = static_cast<uint32_t>(tokens_.size());
    const auto n = static_cast<uint32_t>(text.tokens.size());
    const size_t n_own = (size_t{n} + kPageTokens - 1) / kPageTokens;
    runs_.push_back({.pages = std::span(page_table_).subspan(first_page, n_own),
                     .first_position = 0,
                     .first_row = first_row,
                     .n_rows = n});
    first_page += n_own;
    tokens_.insert(tokens_.end(), text.tokens.begin(), text.tokens.end());
    for (uint32_t i = 0; i < n; ++i) {
      positions_.push_back(i);
      types_.push_back(has_types && i >= text.second_segment ? 1 : 0);
    }
    score_rows_.push_back(text.wants_scores ? static_cast<uint32_t>(first_rows_.size())
                                            : kNoScores);
    if (text.wants_scores) first_rows_.push_back(first_row);
  }
  n_rows_ = static_cast<uint32_t>(tokens_.size());
  CHECK(n_rows_ > 0 && n_rows_ <= buffers_.x.n_rows);
}

void Encoder::embed() {
  const EncoderWeights& w = model_.encoder();
  backend_.embed(model_.embedding(), tokens_, x());
  const float scale = model_.config().embedding_scale;
  if (scale != 1.0f) backend_.scale(x(), scale);
  if (w.token_types) {
    backend_.embed(*w.token_types, types_, spare());
    backend_.add(x(), spare());
  }
  if (model_.positions()) {
    backend_.embed(*model_.positions(), positions_, spare());
    backend_.add(x(), spare());
  }
  normed(x(), w.embeddings_norm, x());
}

Rows Encoder::normed(Rows x, const Buffer& norm, Rows out) {
  if (norm.size() == 0) return x;
  const ModelConfig& c = model_.config();
  const uint32_t dim = c.model_dim;
  if (c.encoder->has_rms_norms) {
    backend_.rms_norm(x, norm.floats(), dim, c.norm_eps, out);
    return out;
  }
  const bool has_bias = norm.size() == size_t{2} * dim * sizeof(float);
  backend_.layer_norm(x, norm.floats(), has_bias ? norm.floats() + dim : nullptr, c.norm_eps, out);
  return out;
}

// x = norm(x + y · weightsᵀ + bias), or with RMS norms x = x + norm(y · weightsᵀ).
void Encoder::add_projection(Rows y, const PackedMatrix& weights, const Buffer& bias,
                             const Buffer& norm) {
  if (model_.config().encoder->has_rms_norms) {
    backend_.matmul(y, weights, spare());
    backend_.add(x(), normed(spare(), norm, spare()));
    return;
  }
  backend_.matmul_add(y, weights, x());
  if (bias.size() > 0) backend_.add_bias(x(), bias.floats());
  normed(x(), norm, x());
}

// Normalizes each head of Q and K, in models with norms of them.
void Encoder::norm_heads(Rows q, Rows k, const AttentionWeights& w, uint32_t head_dim) {
  if (w.q_norm.size() == 0) return;
  const float eps = model_.config().norm_eps;
  backend_.rms_norm(q, w.q_norm.floats(), head_dim, eps, q);
  backend_.rms_norm(k, w.k_norm.floats(), head_dim, eps, k);
}

void Encoder::attend(uint32_t layer) {
  const AttentionConfig& a = model_.config().layers[layer].attention();
  const AttentionWeights& w = model_.layers()[layer].attention;
  const Rows qkv = buffers_.qkv.slice(0, n_rows_).columns(0, a.qkv_dim());
  const Rows q = qkv.columns(0, a.q_dim());
  const Rows k = qkv.columns(a.q_dim(), a.kv_dim());
  const Rows v = qkv.columns(a.q_dim() + a.kv_dim(), a.kv_dim());
  backend_.matmul(normed(x(), w.norm, spare()), *w.qkv, qkv);
  if (w.qkv_bias.size() > 0) backend_.add_bias(qkv, w.qkv_bias.floats());
  norm_heads(q, k, w, a.head_dim);
  if (a.has_rope) {
    backend_.rope(qkv.columns(0, a.q_dim() + a.kv_dim()), a.head_dim, ropes_.pairing(a.rope),
                  ropes_.angles(a.rope));
  }
  const KvGeometry geometry = geometry_of(a);
  const KvTarget kv{.geometry = geometry, .layer = 0, .runs = runs_};
  backend_.write_kv(kv, k, v);
  const Rows heads = buffers_.heads.slice(0, n_rows_).columns(0, a.q_dim());
  backend_.attention(
      kv,
      {.n_heads = a.n_heads, .scale = a.scale, .window = a.window, .reach = AttentionReach::kBoth},
      q, heads);
  add_projection(heads, *w.output, w.output_bias, w.post_norm);
}

void Encoder::feed_forward(uint32_t layer) {
  const FeedForwardWeights& w = model_.layers()[layer].feed_forward;
  const Rows in = normed(x(), w.norm, spare());
  add_projection(gated_.product(in, *w.gate_up, {}, w.gate_up_bias), *w.down, w.down_bias,
                 w.post_norm);
}

// scores = classifier · tanh(pooler · state of the first token)
void Encoder::classify(Rows states) {
  const EncoderWeights& w = model_.encoder();
  CHECK(w.classifier && first_rows_.size() <= buffers_.pooled.n_rows);
  const auto n = static_cast<uint32_t>(first_rows_.size());
  Rows pooled = buffers_.pooled.slice(0, n);
  backend_.gather(states, first_rows_, pooled);
  if (w.pooler) {
    const Rows dense = buffers_.dense.slice(0, n);
    backend_.matmul(pooled, *w.pooler, dense);
    if (w.pooler_bias.size() > 0) backend_.add_bias(dense, w.pooler_bias.floats());
    backend_.soft_cap(dense, 1.0f);  // tanh
    pooled = dense;
  }
  const Rows scores = buffers_.scores.slice(0, n);
  backend_.matmul(pooled, *w.classifier, scores);
  if (w.classifier_bias.size() > 0) backend_.add_bias(scores, w.classifier_bias.floats());
  copy_to_host(backend_, scores, scores_);
}

std::span<const float> Encoder::scores(size_t text) const {
  CHECK(text < score_rows_.size() && score_rows_[text] != kNoScores);
  const size_t n_labels = model_.config().encoder->n_labels;
  return std::span(scores_).subspan(score_rows_[text] * n_labels, n_labels);
}

}  // namespace kvik
