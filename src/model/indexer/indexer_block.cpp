#include "model/indexer/indexer_block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/indexer/index_places.h"

namespace kvik {

IndexerBlock::Buffers IndexerBlock::Buffers::take(const ModelConfig& config, uint32_t n_rows_max,
                                                  RowBuffers& buffers) {
  IndexerConfig most;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.if_attention()) continue;
    const IndexerConfig& own = layer.attention().indexer;
    most.n_heads = std::max(most.n_heads, own.n_heads);
    most.head_dim = std::max(most.head_dim, own.head_dim);
    most.n_top = std::max(most.n_top, own.n_lists() * own.n_top);
  }
  if (most.n_top > 0) buffers.count(n_rows_max * sizeof(uint32_t));  // rows_
  return {.queries = buffers.take(n_rows_max, most.n_heads * most.head_dim),
          .keys = buffers.take(n_rows_max, most.head_dim),
          .weights = buffers.take(n_rows_max, most.n_heads),
          .selected = buffers.take(n_rows_max, most.n_top)};
}

IndexerBlock::IndexerBlock(const Model& model, Backend& backend, const LayerGroups& groups,
                           KvType kv_type, const Buffers& buffers)
    : model_(model), backend_(backend), kv_type_(kv_type), buffers_(buffers) {
  const ModelConfig& c = model.config();
  for (uint32_t layer = 0; layer < c.layers.size(); ++layer) {
    const bool is_own = index_token_bytes(c.layers[layer], kv_type) > 0;
    offsets_.push_back(is_own ? index_offset(c, groups, layer, kv_type, backend) : 0);
  }
  rows_.reserve(buffers.selected.n_rows);
}

void IndexerBlock::write(uint32_t layer, Rows in, Rows low_q, const RopeTables& ropes,
                         std::span<const KvRun> runs) {
  layer_ = layer;
  runs_ = runs;
  const IndexerConfig& c = config();
  const RopeAngles angles = ropes.angles(model_.config().layers[layer].attention().rope);
  const IndexTarget to = {
      .offset = offsets_[layer], .type = index_key_type(kv_type_), .dim = c.head_dim, .runs = runs};
  backend_.write_index(to, compute_keys(in, angles));
  rows_.resize(in.n_rows);
  std::iota(rows_.begin(), rows_.end(), 0);
  is_selected_ = std::ranges::all_of(
      runs, [&](const KvRun& run) { return run.first_position + run.n_rows <= c.n_budget(); });
  queries_ = buffers_.queries.slice(0, in.n_rows).columns(0, c.n_heads * c.head_dim);
  weights_ = buffers_.weights.slice(0, in.n_rows).columns(0, c.is_per_head() ? 0 : c.n_heads);
  if (!is_selected_) compute_queries(in, low_q, angles);
}

Rows IndexerBlock::compute_keys(Rows in, const RopeAngles& angles) {
  const IndexerConfig& c = config();
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  const Rows keys = buffers_.keys.slice(0, in.n_rows).columns(0, c.head_dim);
  backend_.matmul(in, *w.key, keys);
  if (c.is_per_head()) {
    backend_.rms_norm(keys, w.key_norm.floats(), c.head_dim, model_.config().norm_eps, keys);
  } else {
    backend_.layer_norm(keys, w.key_norm.floats(), w.key_norm.floats() + c.head_dim,
                        IndexerConfig::kNormEps, keys);
  }
  backend_.rope(keys, c.head_dim, c.pairing, angles);
  return keys;
}

void IndexerBlock::compute_queries(Rows in, Rows low_q, const RopeAngles& angles) {
  const IndexerConfig& c = config();
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  backend_.matmul(c.is_per_head() ? in : low_q, *w.query, queries_);
  if (c.is_per_head()) {
    backend_.rms_norm(queries_, w.query_norm.floats(), c.head_dim, model_.config().norm_eps,
                      queries_);
  }
  backend_.rope(queries_, c.head_dim, c.pairing, angles);
  if (c.is_per_head()) return;
  backend_.matmul(in, *w.weights, weights_);
  backend_.scale(weights_, 1.0f / std::sqrt(static_cast<float>(c.n_heads * c.head_dim)));
}

void IndexerBlock::select_rows(std::span<const KvRun> runs, uint32_t window) {
  const IndexerConfig& c = config();
  backend_.select_tokens({.offset = offsets_[layer_],
                          .type = index_key_type(kv_type_),
                          .dim = c.head_dim,
                          .runs = runs},
                         {.n_heads = c.n_heads,
                          .n_top = c.n_top,
                          .window = window,
                          .block_tokens = c.block_tokens,
                          .n_local = c.n_local},
                         queries_, weights_, reinterpret_cast<uint32_t*>(buffers_.selected.data));
}

void IndexerBlock::select() {
  if (is_selected_) return;
  select_rows(runs_, 0);
  is_selected_ = true;
}

void IndexerBlock::select(const KvRun& run, uint32_t window) {
  if (!is_selected_) select_rows({&run, 1}, window);
}

void IndexerBlock::keep(std::span<const uint32_t> rows) {
  if (!rows.empty()) select();
  for (size_t i = 0; i < rows.size(); ++i) rows_[i] = rows_[rows[i]];
  rows_.resize(rows.size());
}

SelectedTokens IndexerBlock::selected() const {
  const IndexerConfig& c = config();
  return {.blocks = reinterpret_cast<const uint32_t*>(buffers_.selected.data),
          .n_top = c.n_top,
          .n_budget = c.n_budget(),
          .rows = rows_,
          .block_tokens = std::max(1u, c.block_tokens),
          .n_lists = c.n_lists()};
}

}  // namespace kvik
