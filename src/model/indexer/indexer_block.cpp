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
    most.n_top = std::max(most.n_top, own.n_top);
    most.has_query_norm = most.has_query_norm || own.has_query_norm;
  }
  if (most.n_top > 0) buffers.count(n_rows_max * sizeof(uint32_t));  // rows_
  return {.queries = buffers.take(n_rows_max, most.n_heads * most.head_dim),
          .inputs = buffers.take(n_rows_max, most.has_query_norm ? config.model_dim : 0),
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

void IndexerBlock::write(uint32_t layer, const Input& in, const RopeTables& ropes,
                         QueryScaling& scaling) {
  layer_ = layer;
  runs_ = in.runs;
  const uint32_t n_rows = in.rows.n_rows;
  const IndexerConfig& c = attention().indexer;
  const IndexerWeights& w = model_.layers()[layer].attention.indexer;
  const Rows keys = buffers_.keys.slice(0, n_rows).columns(0, c.head_dim);
  backend_.matmul(in.rows, *w.key, keys);
  backend_.layer_norm(keys, w.key_norm.floats(), w.key_norm.floats() + c.head_dim,
                      IndexerConfig::kNormEps, keys);
  turn(keys, ropes);
  backend_.write_index({.offset = offsets_[layer],
                        .type = index_key_type(kv_type_),
                        .dim = c.head_dim,
                        .runs = in.runs},
                       keys);

  rows_.resize(n_rows);
  std::iota(rows_.begin(), rows_.end(), 0);
  is_selected_ = std::ranges::all_of(
      runs_, [&](const KvRun& run) { return run.first_position + run.n_rows <= c.n_top; });
  queries_ = buffers_.queries.slice(0, n_rows).columns(0, c.n_heads * c.head_dim);
  weights_ = buffers_.weights.slice(0, n_rows).columns(0, c.n_heads);
  if (!is_selected_) write_queries(in, ropes, scaling);
}

void IndexerBlock::write_queries(const Input& in, const RopeTables& ropes, QueryScaling& scaling) {
  const IndexerConfig& c = attention().indexer;
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  Rows input = in.low_q;
  if (c.has_query_norm) {
    input = buffers_.inputs.slice(0, in.rows.n_rows);
    backend_.layer_norm(in.rows, w.query_norm.floats(), w.query_norm.floats() + input.n_cols,
                        IndexerConfig::kNormEps, input);
  }
  backend_.matmul(input, *w.query, queries_);
  turn(queries_, ropes);
  scaling.scale(w.ssmax, queries_, c.head_dim);
  backend_.matmul(in.rows, *w.weights, weights_);
  backend_.scale(weights_, 1.0f / std::sqrt(static_cast<float>(c.n_heads * c.head_dim)));
}

void IndexerBlock::turn(Rows heads, const RopeTables& ropes) {
  const AttentionConfig& a = attention();
  if (!a.has_rope) return;
  backend_.rope(heads, a.indexer.head_dim, a.indexer.pairing, ropes.angles(a.rope));
}

void IndexerBlock::select_rows(std::span<const KvRun> runs, uint32_t window) {
  const IndexerConfig& c = attention().indexer;
  backend_.select_tokens({.offset = offsets_[layer_],
                          .type = index_key_type(kv_type_),
                          .dim = c.head_dim,
                          .runs = runs},
                         {.n_heads = c.n_heads, .n_top = c.n_top, .window = window}, queries_,
                         weights_, reinterpret_cast<uint32_t*>(buffers_.selected.data));
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
  const IndexerConfig& c = attention().indexer;
  return {.tokens = reinterpret_cast<const uint32_t*>(buffers_.selected.data),
          .n_top = c.n_top,
          .rows = rows_};
}

}  // namespace kvik
