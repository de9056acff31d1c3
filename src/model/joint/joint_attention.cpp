#include "model/joint/joint_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/indexer/index_places.h"

namespace kvik {
namespace {

// Returns the columns of the values and gates of entries of `dim` dimensions.
uint32_t n_inputs(const EntriesConfig& entries, uint32_t dim) {
  return entries.exist() ? 2 * entries.n_parts() * dim : 0;
}

}  // namespace

JointAttention::Buffers JointAttention::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  uint32_t down = 0, ones = 0, inputs = 0, entries = 0, queries = 0, weights = 0, n_selected = 0,
           low = 0;
  std::vector<uint32_t> drafts;
  std::vector<uint32_t> lengths;  // of entries
  for (const LayerConfig& layer : config.layers) {
    drafts.push_back(0);
    if (!layer.if_attention() || !layer.attention().joint.exists()) continue;
    const AttentionConfig& a = layer.attention();
    const EntriesConfig& e = a.joint.entries;
    down = std::max(down, a.joint.q_rank + a.head_dim);
    ones = std::max(ones, a.head_dim);
    low = std::max(low, a.output_dim());
    if (!e.exist()) continue;
    inputs = std::max({inputs, n_inputs(e, a.head_dim), n_inputs(e, e.index_dim)});
    entries = std::max({entries, a.head_dim, e.index_dim});
    drafts.back() = n_inputs(e, a.head_dim) + n_inputs(e, e.index_dim);
    if (std::ranges::count(lengths, e.n_tokens) == 0) lengths.push_back(e.n_tokens);
    if (!e.selects()) continue;
    queries = std::max(queries, e.n_index_heads * e.index_dim);
    weights = std::max(weights, e.n_index_heads);
    n_selected = std::max(n_selected, e.n_top + 1);
  }
  buffers.count(lengths.size() * RopeTables::bytes(config, n_rows_max));
  if (n_selected > 0) buffers.count(n_rows_max * sizeof(uint32_t));  // rows_
  Buffers taken{.down = buffers.take(n_rows_max, down),
                .ones = buffers.take(1, ones),
                .inputs = buffers.take(n_rows_max, inputs),
                .entries = buffers.take(n_rows_max, entries),
                .index_queries = buffers.take(n_rows_max, queries),
                .index_weights = buffers.take(n_rows_max, weights),
                .selected = buffers.take(n_rows_max, n_selected),
                .low = buffers.take(n_rows_max, low),
                .drafts = {}};
  const uint32_t n_drafts = std::min(RecurrentBlock::kMaxDraftRows, n_rows_max);
  for (const uint32_t n_cols : drafts) taken.drafts.push_back(buffers.take(n_drafts, n_cols));
  return taken;
}

JointAttention::JointAttention(const Model& model, Backend& backend, const LayerGroups& groups,
                               KvType kv_type, const Buffers& buffers)
    : model_(model), backend_(backend), kv_type_(kv_type), buffers_(buffers) {
  const ModelConfig& c = model.config();
  const StateLayout layout = state_layout(c);
  own_parts_.resize(c.layers.size());
  index_parts_.resize(c.layers.size());
  const uint32_t n_rows_max = buffers.down.n_rows;
  for (uint32_t layer = 0; layer < c.layers.size(); ++layer) {
    const bool has_index = index_page_bytes(c.layers[layer], kv_type) > 0;
    index_offsets_.push_back(has_index ? index_offset(c, groups, layer, kv_type, backend) : 0);
    if (!c.layers[layer].has_entries()) continue;
    const AttentionConfig& a = c.layers[layer].attention();
    const EntriesConfig& e = a.joint.entries;
    starts_.try_emplace(e.n_tokens, backend.memory(), c, model.rope_divisors(), n_rows_max);
    const uint32_t n_own = n_inputs(e, a.head_dim);
    const auto part = [&](const EntryWeights& weights, uint32_t dim, uint64_t offset,
                          Rows drafts) -> Part {
      const EntryShape shape{.dim = dim,
                             .n_tokens = e.n_tokens,
                             .overlaps = e.overlaps,
                             .positions = weights.positions.floats()};
      return {weights, WeightedMeans(backend, shape, layout.offsets[layer] + offset, drafts)};
    };
    const AttentionWeights& w = model.layers()[layer].attention;
    const Rows drafts = buffers.drafts[layer];
    own_parts_[layer].emplace(part(w.joint.entries, a.head_dim, 0, drafts.columns(0, n_own)));
    if (!e.selects()) continue;
    index_parts_[layer].emplace(part(w.indexer.entries, e.index_dim, e.state_floats(a.head_dim),
                                     drafts.columns(n_own, n_inputs(e, e.index_dim))));
  }
  const std::vector<float> ones(buffers.ones.n_cols, 1.0f);
  backend.memory().copy_in(reinterpret_cast<std::byte*>(buffers.ones.data),
                           std::as_bytes(std::span(ones)));
  start_positions_.reserve(n_rows_max);
  rows_.reserve(n_rows_max);
}

void JointAttention::begin_step(std::span<const uint32_t> positions, RecurrentBlock* states) {
  positions_ = positions;
  states_ = states;
  for (auto& [n_tokens, ropes] : starts_) {
    start_positions_.clear();
    for (const uint32_t position : positions) {
      start_positions_.push_back(position - position % n_tokens);
    }
    ropes.prepare(start_positions_);
  }
}

void JointAttention::replay() {
  if (!states_) return;
  for (auto* parts : {&own_parts_, &index_parts_}) {
    for (auto& part : *parts) {
      if (part) part->means.replay(*states_, buffers_.inputs, buffers_.entries);
    }
  }
}

// Rotates the last dimensions of heads.
void JointAttention::rotate(uint32_t layer, Rows heads, uint32_t head_dim,
                            const RopeAngles& angles) {
  const AttentionConfig& a = config_of(layer);
  const uint32_t first = head_dim - a.joint.rope_dim;
  backend_.rope(heads.columns(first, heads.n_cols - first), head_dim,
                model_.config().ropes[a.rope].pairing, angles);
}

Rows JointAttention::add_tokens(uint32_t layer, Part& part, Rows in) {
  const AttentionConfig& a = config_of(layer);
  const uint32_t dim = part.means.dim();
  const Rows inputs = buffers_.inputs.slice(0, in.n_rows).columns(0, part.means.n_inputs());
  const Rows entries = buffers_.entries.slice(0, in.n_rows).columns(0, dim);
  backend_.matmul(in, *part.weights.in, inputs);
  part.means.run(*states_, positions_, inputs, entries);
  backend_.rms_norm(entries, part.weights.norm.floats(), dim, model_.config().norm_eps, entries);
  rotate(layer, entries, dim, starts_.at(a.joint.entries.n_tokens).angles(a.rope));
  return entries;
}

void JointAttention::write(uint32_t layer, const Targets& to, const RopeTables& ropes,
                           ResidualStream& x, Rows q) {
  const float eps = model_.config().norm_eps;
  const AttentionConfig& a = config_of(layer);
  const EntriesConfig& e = a.joint.entries;
  const AttentionWeights& w = model_.layers()[layer].attention;
  const Rows in = x.normed(w.norm);
  const Rows down = buffers_.down.slice(0, in.n_rows).columns(0, a.joint.q_rank + a.head_dim);
  const Rows low_q = down.columns(0, a.joint.q_rank);
  const Rows k = down.columns(a.joint.q_rank, a.head_dim);
  backend_.matmul(in, *w.qkv, down);
  backend_.rms_norm(low_q, w.latent.q_norm.floats(), a.joint.q_rank, eps, low_q);
  backend_.matmul(low_q, *w.latent.q_up, q);
  backend_.rms_norm(q, buffers_.ones.data, a.head_dim, eps, q);
  rotate(layer, q, a.head_dim, ropes.angles(a.rope));
  backend_.rms_norm(k, w.latent.kv_norm.floats(), a.head_dim, eps, k);
  rotate(layer, k, a.head_dim, ropes.angles(a.rope));
  backend_.write_kv(to.kv, k, {});

  layer_ = layer;
  is_selected_ = true;
  rows_.resize(in.n_rows);
  std::iota(rows_.begin(), rows_.end(), 0);
  if (!e.exist()) return;
  entry_runs_ = to.entries.kv.runs;
  backend_.write_entries(to.entries, add_tokens(layer, *own_parts_[layer], in));
  if (!e.selects()) return;
  backend_.write_index({.offset = index_offsets_[layer],
                        .type = index_key_type(kv_type_),
                        .dim = e.index_dim,
                        .runs = entry_runs_,
                        .key_tokens = e.n_tokens},
                       add_tokens(layer, *index_parts_[layer], in));
  is_selected_ = std::ranges::all_of(entry_runs_, [&](const KvRun& run) {
    return (run.first_position + run.n_rows) / e.n_tokens <= e.n_top;
  });
  if (!is_selected_) compute_queries(layer, in, low_q, ropes);
}

void JointAttention::compute_queries(uint32_t layer, Rows in, Rows low_q, const RopeTables& ropes) {
  const AttentionConfig& a = config_of(layer);
  const EntriesConfig& e = a.joint.entries;
  const IndexerWeights& w = model_.layers()[layer].attention.indexer;
  const uint32_t n_cols = e.n_index_heads * e.index_dim;
  index_queries_ = buffers_.index_queries.slice(0, in.n_rows).columns(0, n_cols);
  index_weights_ = buffers_.index_weights.slice(0, in.n_rows).columns(0, e.n_index_heads);
  backend_.matmul(low_q, *w.query, index_queries_);
  rotate(layer, index_queries_, e.index_dim, ropes.angles(a.rope));
  backend_.matmul(in, *w.weights, index_weights_);
  backend_.scale(index_weights_, 1.0f / std::sqrt(static_cast<float>(n_cols)));
}

void JointAttention::select() {
  if (is_selected_) return;
  is_selected_ = true;
  const EntriesConfig& e = config_of(layer_).joint.entries;
  backend_.select_tokens({.offset = index_offsets_[layer_],
                          .type = index_key_type(kv_type_),
                          .dim = e.index_dim,
                          .runs = entry_runs_,
                          .key_tokens = e.n_tokens},
                         {.n_heads = e.n_index_heads, .n_top = e.n_top}, index_queries_,
                         index_weights_, reinterpret_cast<uint32_t*>(buffers_.selected.data));
}

void JointAttention::keep(std::span<const uint32_t> rows) {
  select();
  rows_.assign(rows.begin(), rows.end());
}

void JointAttention::attend(uint32_t layer, const Targets& from, const RopeTables& ropes, Rows q,
                            Rows heads, ResidualStream& x) {
  const AttentionConfig& a = config_of(layer);
  const AttentionWeights& w = model_.layers()[layer].attention;
  const EntriesConfig& e = a.joint.entries;
  const AttentionShape shape{
      .n_heads = a.n_heads, .scale = a.scale, .window = a.window, .sinks = w.sinks.floats()};
  if (e.exist()) {
    select();
    EntrySelection selection;
    if (e.selects()) {
      selection = {.lists = reinterpret_cast<const uint32_t*>(buffers_.selected.data),
                   .n_top = e.n_top,
                   .stride = e.n_top + 1,
                   .rows = rows_};
    }
    backend_.attend_to_entries(from.kv, from.entries, selection, shape, q, heads);
  } else {
    backend_.attention(from.kv, shape, q, heads);
  }
  project(layer, ropes, heads, x);
}

void JointAttention::project(uint32_t layer, const RopeTables& ropes, Rows heads,
                             ResidualStream& x) {
  const AttentionConfig& a = config_of(layer);
  const AttentionWeights& w = model_.layers()[layer].attention;
  rotate(layer, heads, a.head_dim, ropes.inverse_angles(a.rope));
  const uint32_t group_dim = a.q_dim() / a.joint.n_groups;
  const Rows low = buffers_.low.slice(0, heads.n_rows).columns(0, a.output_dim());
  backend_.head_matmul({heads, a.joint.n_groups, group_dim, 0, group_dim}, *w.joint.output_down,
                       {low, a.joint.n_groups, a.joint.group_rank, 0, a.joint.group_rank});
  x.add_projection(low, {.weights = *w.output, .bias = w.output_bias, .post_norm = w.post_norm});
}

}  // namespace kvik
