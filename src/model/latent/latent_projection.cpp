#include "model/latent/latent_projection.h"

#include <algorithm>

namespace kvik {

LatentProjection::Buffers LatentProjection::Buffers::take(const ModelConfig& config,
                                                          uint32_t n_rows_max,
                                                          RowBuffers& buffers) {
  uint32_t down_dim = 0;
  uint32_t q_dim = 0;
  uint32_t value_dim = 0;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.if_attention() || layer.attention().latent.rank == 0) continue;
    const AttentionConfig& a = layer.attention();
    const uint32_t all_heads = a.n_heads * a.latent.q_dim();
    const uint32_t first_dim = a.latent.q_rank ? a.latent.q_rank : all_heads;
    down_dim = std::max(down_dim, first_dim + a.head_dim + a.gate_dim());
    if (a.latent.q_rank) q_dim = std::max(q_dim, all_heads);
    value_dim = std::max(value_dim, a.output_dim());
  }
  return {.down = buffers.take(n_rows_max, down_dim),
          .queries = buffers.take(n_rows_max, q_dim),
          .values = buffers.take(n_rows_max, value_dim)};
}

LatentProjection::Projected LatentProjection::project(uint32_t layer, Rows in,
                                                      const RopeTables& ropes, Rows q) {
  const float eps = model_.config().norm_eps;
  const AttentionConfig& a = model_.config().layers[layer].attention();
  const LatentConfig& l = a.latent;
  const AttentionWeights& w = model_.layers()[layer].attention;
  const uint32_t first_dim = l.q_rank ? l.q_rank : a.n_heads * l.q_dim();
  const Rows down = buffers_.down.slice(0, in.n_rows).columns(0, w.qkv->n_rows());
  const Rows first = down.columns(0, first_dim);
  const uint32_t k_dim = a.shared_kv ? 0 : a.head_dim;
  const Rows k = down.columns(first_dim, k_dim);
  backend_.matmul(in, *w.qkv, down);

  Rows raw = first;
  if (l.q_rank) {
    backend_.rms_norm(first, w.latent.q_norm.floats(), l.q_rank, eps, first);
    raw = buffers_.queries.slice(0, in.n_rows).columns(0, a.n_heads * l.q_dim());
    backend_.matmul(first, *w.latent.q_up, raw);
  }
  if (k_dim > 0) {
    const Rows latent = k.columns(0, l.rank);
    backend_.rms_norm(latent, w.latent.kv_norm.floats(), l.rank, eps, latent);
  }
  if (a.has_rope) {
    const RopePairing pairing = ropes.pairing(a.rope);
    const RopeAngles angles = ropes.angles(a.rope);
    backend_.rope(raw.columns(l.qk_nope_head_dim, raw.n_cols - l.qk_nope_head_dim), l.q_dim(),
                  pairing, angles);
    if (k_dim > 0) {
      backend_.rope(k.columns(l.rank, l.qk_rope_head_dim), l.qk_rope_head_dim, pairing, angles);
    }
  }

  const HeadRows still{raw, a.n_heads, l.q_dim(), 0, l.qk_nope_head_dim};
  const HeadRows rope_rows{raw, a.n_heads, l.q_dim(), l.qk_nope_head_dim, l.qk_rope_head_dim};
  backend_.head_matmul(still, *w.latent.k_up, {q, a.n_heads, a.head_dim, 0, l.rank});
  if (l.qk_rope_head_dim > 0) {
    backend_.copy_heads(rope_rows, {q, a.n_heads, a.head_dim, l.rank, l.qk_rope_head_dim});
  }
  return {.k = k,
          .gate = down.columns(first_dim + k_dim, a.gate_dim()),
          .low_q = down.columns(0, l.q_rank)};
}

Rows LatentProjection::values(uint32_t layer, Rows gathered) {
  const AttentionConfig& a = model_.config().layers[layer].attention();
  const LatentConfig& l = a.latent;
  const Rows out = buffers_.values.slice(0, gathered.n_rows).columns(0, a.output_dim());
  backend_.head_matmul({gathered, a.n_heads, l.rank, 0, l.rank},
                       *model_.layers()[layer].attention.latent.v_up,
                       {out, a.n_heads, l.value_dim, 0, l.value_dim});
  return out;
}

}  // namespace kvik
