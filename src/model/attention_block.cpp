#include "model/attention_block.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

AttentionBlock::Buffers AttentionBlock::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  uint32_t qkv_dim = 0;
  uint32_t q_dim = 0;
  for (const LayerConfig& layer : config.layers) {
    qkv_dim = std::max(qkv_dim, layer.attention().qkv_dim());
    q_dim = std::max(q_dim, layer.attention().q_dim());
  }
  buffers.count(RopeTables::bytes(config, n_rows_max));
  return {.qkv = buffers.take(n_rows_max, qkv_dim),
          .wanted_q = buffers.take(n_rows_max, q_dim),
          .heads = buffers.take(n_rows_max, q_dim)};
}

AttentionBlock::AttentionBlock(const Model& model, Backend& backend, KvType kv_type,
                               const Buffers& buffers)
    : model_(model),
      backend_(backend),
      groups_(group_layers(model.config())),
      ropes_(backend.memory(), model.config(), model.rope_divisors(), buffers.qkv.n_rows),
      buffers_(buffers) {
  for (uint32_t group = 0; group < groups_.n_groups(); ++group) {
    geometries_.push_back(kv_geometry(groups_, group, kv_type));
    CHECK(backend.page_bytes(geometries_.back()) == page_bytes());  // any page serves any group
  }
}

void AttentionBlock::begin_step(std::span<const uint32_t> positions, const GroupRuns& runs) {
  ropes_.prepare(positions);
  runs_ = &runs;
}

KvTarget AttentionBlock::target(uint32_t layer) const {
  const auto [group, place] = groups_.places[layer];
  return {.geometry = geometries_[group], .layer = place, .runs = (*runs_)[group]};
}

void AttentionBlock::write_kv(uint32_t layer, ResidualStream& x) {
  const ModelConfig& c = model_.config();
  const AttentionConfig& a = config_of(layer);
  const AttentionWeights& w = model_.layers()[layer].attention;
  const Rows qkv = buffers_.qkv.slice(0, x.n_rows()).columns(0, a.qkv_dim());
  const Rows q = qkv.columns(0, a.q_dim());
  const Rows k = qkv.columns(a.q_dim(), a.kv_dim());
  const Rows v = qkv.columns(a.q_dim() + a.kv_dim(), a.kv_dim());

  backend_.matmul(x.normed(w.norm), *w.qkv, qkv);
  if (a.has_qkv_bias) backend_.add_bias(qkv, w.qkv_bias.floats());
  if (a.qk_norm != QkNorm::kNone) {
    backend_.rms_norm(q, w.q_norm.floats(), a.q_norm_dim(), c.norm_eps, q);
    backend_.rms_norm(k, w.k_norm.floats(), a.k_norm_dim(), c.norm_eps, k);
  }
  backend_.rope(qkv.columns(0, a.q_dim() + a.kv_dim()), a.head_dim, ropes_.pairing(a.rope),
                ropes_.angles(a.rope));
  backend_.write_kv(target(layer), k, v);
  q_ = q;
}

void AttentionBlock::keep(std::span<const uint32_t> rows, const GroupRuns& runs) {
  const Rows q = buffers_.wanted_q.slice(0, static_cast<uint32_t>(rows.size()));
  const Rows kept = q.columns(0, q_.n_cols);
  backend_.gather(q_, rows, kept);
  q_ = kept;
  runs_ = &runs;
}

void AttentionBlock::attend(uint32_t layer, ResidualStream& x) {
  const AttentionConfig& a = config_of(layer);
  const AttentionWeights& w = model_.layers()[layer].attention;
  const Rows heads = buffers_.heads.slice(0, x.n_rows()).columns(0, a.q_dim());
  backend_.attention(
      target(layer),
      {.n_heads = a.n_heads, .scale = a.scale, .soft_cap = a.soft_cap, .window = a.window}, q_,
      heads);
  x.add_projection(heads, *w.output, w.post_norm);
}

}  // namespace kvik
