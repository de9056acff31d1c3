#include "model/indexer/indexer_block.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/indexer/index_places.h"

namespace kvik {

IndexerBlock::Buffers IndexerBlock::Buffers::take(const ModelConfig& config, uint32_t n_rows_max,
                                                  RowBuffers& buffers) {
  IndexerConfig most;
  uint32_t n_selected = 0;
  bool has_weights = false;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.if_attention()) continue;
    const IndexerConfig& own = layer.attention().indexer;
    most.n_heads = std::max(most.n_heads, own.n_heads);
    most.head_dim = std::max(most.head_dim, own.head_dim);
    n_selected = std::max(n_selected, own.n_top > 0 ? own.n_lists() * own.n_listed() : 0);
    most.has_input_norm = most.has_input_norm || own.has_input_norm;
    most.key_tokens = std::max(most.key_tokens, own.key_tokens);
    most.has_weighted_means = most.has_weighted_means || own.has_weighted_means;
    has_weights = has_weights || own.has_head_weights();
  }
  if (n_selected > 0) buffers.count(n_rows_max * sizeof(uint32_t));  // rows_
  const uint32_t n_block_rows = most.has_block_keys() ? n_rows_max : 0;
  const bool has_plain_means = most.has_block_keys() && !most.has_weighted_means;
  const uint32_t key_cols = (most.has_weighted_means ? 2 : 1) * most.head_dim;
  Buffers taken{.queries = buffers.take(n_rows_max, most.n_heads * most.head_dim),
                .inputs = buffers.take(n_rows_max, most.has_input_norm ? config.model_dim : 0),
                .keys = buffers.take(n_rows_max, key_cols),
                .weights = buffers.take(has_weights ? n_rows_max : 0, most.n_heads),
                .selected = buffers.take(n_rows_max, n_selected),
                .means = buffers.take(n_block_rows, most.head_dim),
                .ones = buffers.take(has_plain_means ? 1 : 0, most.n_heads),
                .shares = buffers.take(has_plain_means ? most.key_tokens : 0, most.head_dim),
                .drafts = {}};
  if (!most.has_block_keys()) return taken;
  if (has_plain_means) {
    buffers.count(RopeTables::bytes(config, n_rows_max) + n_rows_max * sizeof(uint32_t));
  }
  const uint32_t n_drafts = std::min(RecurrentBlock::kMaxDraftRows, n_rows_max);
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig* a = layer.if_attention();
    const bool has_block_keys = a && a->indexer.is_own() && a->indexer.has_block_keys();
    taken.drafts.push_back(has_block_keys ? buffers.take(n_drafts, key_cols) : Rows());
  }
  return taken;
}

IndexerBlock::IndexerBlock(const Model& model, Backend& backend, const LayerGroups& groups,
                           KvType kv_type, const Buffers& buffers)
    : model_(model), backend_(backend), kv_type_(kv_type), buffers_(buffers) {
  const ModelConfig& c = model.config();
  for (uint32_t layer = 0; layer < c.layers.size(); ++layer) {
    const bool is_own = index_page_bytes(c.layers[layer], kv_type) > 0;
    offsets_.push_back(is_own ? index_offset(c, groups, layer, kv_type, backend) : 0);
  }
  rows_.reserve(buffers.selected.n_rows);
  if (buffers.means.n_rows == 0) return;
  const StateLayout layout = state_layout(c);
  if (buffers.shares.n_rows == 0) {
    weighted_means_.resize(c.layers.size());
    for (size_t layer = 0; layer < c.layers.size(); ++layer) {
      if (buffers.drafts[layer].n_cols == 0) continue;
      weighted_means_[layer].emplace(
          backend,
          EntryShape{
              .dim = c.layers[layer].attention().indexer.head_dim,
              .n_tokens = c.layers[layer].attention().indexer.key_tokens,
              .positions = model.layers()[layer].attention.indexer.entries.positions.floats()},
          layout.offsets[layer], buffers.drafts[layer]);
    }
    return;
  }
  const auto fill = [&](Rows rows, float value) {
    const std::vector<float> values(size_t{rows.n_rows} * rows.n_cols, value);
    backend.memory().copy_in(reinterpret_cast<std::byte*>(rows.data),
                             std::as_bytes(std::span(values)));
  };
  fill(buffers.ones, 1.0f);
  fill(buffers.shares, 1.0f / static_cast<float>(buffers.shares.n_rows));
  starts_.emplace(backend.memory(), c, model.rope_divisors(), buffers.means.n_rows);
  start_positions_.reserve(buffers.means.n_rows);
  means_.resize(c.layers.size());
  for (size_t layer = 0; layer < c.layers.size(); ++layer) {
    if (buffers.drafts[layer].n_cols == 0) continue;
    means_[layer].emplace(
        backend,
        ConvShape{.conv_weights = buffers.shares.data, .kernel_size = buffers.shares.n_rows},
        layout.offsets[layer], buffers.drafts[layer]);
  }
}

void IndexerBlock::begin_step(std::span<const uint32_t> positions, RecurrentBlock* states) {
  states_ = states;
  positions_ = positions;
  if (!starts_) return;
  const uint32_t before = buffers_.shares.n_rows - 1;
  start_positions_.clear();
  for (const uint32_t position : positions) {
    start_positions_.push_back(position - std::min(position, before));
  }
  starts_->prepare(start_positions_);
}

void IndexerBlock::replay() {
  for (auto& mean : means_) {
    if (mean) mean->replay(*states_, buffers_.keys, buffers_.means);
  }
  for (auto& mean : weighted_means_) {
    if (mean) mean->replay(*states_, buffers_.keys, buffers_.means);
  }
}

IndexTarget IndexerBlock::target(std::span<const KvRun> runs) const {
  const IndexerConfig& c = config();
  return {.offset = offsets_[layer_],
          .type = index_key_type(kv_type_),
          .dim = c.head_dim,
          .runs = runs,
          .key_tokens = c.key_tokens};
}

void IndexerBlock::write(uint32_t layer, const Input& in, const RopeTables& ropes,
                         QueryScaling& scaling) {
  layer_ = layer;
  runs_ = in.runs;
  const IndexerConfig& c = config();
  rows_.resize(in.rows.n_rows);
  std::iota(rows_.begin(), rows_.end(), 0);
  is_selected_ = std::ranges::all_of(
      runs_, [&](const KvRun& run) { return run.first_position + run.n_rows <= c.n_budget(); });
  queries_ = buffers_.queries.slice(0, in.rows.n_rows).columns(0, c.n_heads * c.head_dim);
  backend_.write_index(target(runs_), c.has_weighted_means ? compute_weighted_means(in.rows)
                                      : c.has_block_keys() ? compute_block_keys(in.rows)
                                                           : compute_keys(in.rows, ropes));
  if (!is_selected_) compute_queries(in, ropes, scaling);
}

Rows IndexerBlock::compute_keys(Rows in, const RopeTables& ropes) {
  const IndexerConfig& c = config();
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  const Rows keys = buffers_.keys.slice(0, in.n_rows).columns(0, c.head_dim);
  backend_.matmul(in, *w.key, keys);
  if (c.is_per_head()) {
    backend_.rms_norm(keys, w.key_norm.floats(), c.head_dim, model_.config().norm_eps, keys);
  } else {
    norm_keys(keys);
  }
  rotate(keys, ropes);
  return keys;
}

void IndexerBlock::norm_keys(Rows keys) {
  const float* norm = model_.layers()[layer_].attention.indexer.key_norm.floats();
  backend_.layer_norm(keys, norm, norm + keys.n_cols, IndexerConfig::kNormEps, keys);
}

Rows IndexerBlock::compute_weighted_means(Rows in) {
  const uint32_t dim = config().head_dim;
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  const Rows inputs = buffers_.keys.slice(0, in.n_rows).columns(0, 2 * dim);
  const Rows means = buffers_.means.slice(0, in.n_rows).columns(0, dim);
  backend_.matmul(in, *w.key, inputs.columns(0, dim));
  backend_.matmul(in, *w.entries.in, inputs.columns(dim, dim));
  norm_keys(inputs.columns(0, dim));
  weighted_means_[layer_]->run(*states_, positions_, inputs, means);
  return means;
}

Rows IndexerBlock::compute_block_keys(Rows in) {
  const AttentionConfig& a = model_.config().layers[layer_].attention();
  const uint32_t dim = a.indexer.head_dim;
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  const Rows keys = buffers_.keys.slice(0, in.n_rows).columns(0, dim);
  const Rows means = buffers_.means.slice(0, in.n_rows).columns(0, dim);
  backend_.matmul(in, *w.key, keys);
  means_[layer_]->run(*states_, keys, means);
  backend_.rms_norm(means, w.key_norm.floats(), dim, model_.config().norm_eps, means);
  backend_.rope(means, dim, a.indexer.pairing, starts_->angles(a.rope));
  return means;
}

void IndexerBlock::compute_queries(const Input& in, const RopeTables& ropes,
                                   QueryScaling& scaling) {
  const IndexerConfig& c = config();
  const IndexerWeights& w = model_.layers()[layer_].attention.indexer;
  const uint32_t n_rows = in.rows.n_rows;
  const bool has_norm = w.query_norm.size() > 0;
  Rows input = has_norm ? in.rows : in.low_q;
  if (c.has_input_norm) {
    input = buffers_.inputs.slice(0, n_rows);
    backend_.layer_norm(in.rows, w.input_norm.floats(), w.input_norm.floats() + input.n_cols,
                        IndexerConfig::kNormEps, input);
  }
  backend_.matmul(input, *w.query, queries_);
  if (has_norm) {
    backend_.rms_norm(queries_, w.query_norm.floats(), c.head_dim, model_.config().norm_eps,
                      queries_);
  }
  rotate(queries_, ropes);
  scaling.scale(w.ssmax, queries_, c.head_dim);
  if (!c.has_head_weights()) {
    weights_ = c.has_block_keys() ? Rows{buffers_.ones.data, n_rows, c.n_heads, 0} : Rows();
    return;
  }
  weights_ = buffers_.weights.slice(0, n_rows).columns(0, c.n_heads);
  backend_.matmul(in.rows, *w.weights, weights_);
  backend_.scale(weights_, 1.0f / std::sqrt(static_cast<float>(c.n_heads * c.head_dim)));
}

void IndexerBlock::rotate(Rows heads, const RopeTables& ropes) {
  const AttentionConfig& a = model_.config().layers[layer_].attention();
  if (!a.has_rope) return;
  backend_.rope(heads, a.indexer.head_dim, a.indexer.pairing, ropes.angles(a.rope));
}

void IndexerBlock::select_rows(std::span<const KvRun> runs, uint32_t window) {
  const IndexerConfig& c = config();
  backend_.select_tokens(target(runs),
                         {.n_heads = c.n_heads,
                          .n_top = c.n_top / c.key_tokens,
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
          .n_top = c.n_listed(),
          .n_budget = c.n_budget(),
          .rows = rows_,
          .block_tokens = c.listed_tokens(),
          .n_lists = c.n_lists()};
}

}  // namespace kvik
