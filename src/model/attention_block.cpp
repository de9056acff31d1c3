#include "model/attention_block.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "catalogue/kv_source.h"

namespace kvik {
namespace {

// Range of positions over which the observed tokens are spread.
constexpr uint32_t kObservedPositions = 4096;

// Returns whether AttentionBlock::gate_output() needs Buffers::scratch.
bool needs_scratch(const AttentionConfig& a) {
  return a.output_gate == OutputGate::kPerHead || a.gate_function != GateFunction::kSigmoid;
}

}  // namespace

AttentionBlock::Buffers AttentionBlock::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  uint32_t qkv_dim = 0;
  uint32_t q_dim = 0;
  uint32_t latent_q_dim = 0;
  uint32_t heads_dim = 0;
  uint32_t ones_dim = 0;
  uint32_t scratch_dim = 0;
  uint32_t narrow_dim = 0;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.if_attention()) continue;
    const AttentionConfig& a = layer.attention();
    uint32_t& own = a.latent_dim() > 0 ? latent_q_dim : qkv_dim;
    own = std::max(own, a.latent_dim() > 0 ? a.q_dim() : a.qkv_dim() + a.gate_dim());
    q_dim = std::max(q_dim, a.q_dim() + a.gate_dim());
    heads_dim = std::max(heads_dim, a.latent.rank ? a.n_heads * a.latent.rank : a.q_dim());
    if (a.value_dim) narrow_dim = std::max({narrow_dim, a.kv_dim(), a.output_dim()});
    if (needs_scratch(a)) scratch_dim = std::max(scratch_dim, a.gate_dim());
    if (a.has_v_norm || a.qk_norm == QkNorm::kPlain) ones_dim = std::max(ones_dim, a.head_dim);
  }
  buffers.count(RopeTables::bytes(config, n_rows_max) + n_rows_max * sizeof(float));
  return {.qkv = buffers.take(n_rows_max, qkv_dim),
          .wanted_q = buffers.take(n_rows_max, q_dim),
          .heads = buffers.take(n_rows_max, heads_dim),
          .latent_q = buffers.take(n_rows_max, latent_q_dim),
          .narrow = buffers.take(n_rows_max, narrow_dim),
          .scratch = buffers.take(n_rows_max, scratch_dim),
          .ones = buffers.take(1, ones_dim),
          .latent = LatentProjection::Buffers::take(config, n_rows_max, buffers),
          .query_factors = QueryScaling::take_buffer(config, n_rows_max, buffers),
          .indexer = IndexerBlock::Buffers::take(config, n_rows_max, buffers),
          .joint = JointAttention::Buffers::take(config, n_rows_max, buffers)};
}

AttentionBlock::AttentionBlock(const Model& model, Backend& backend, KvType kv_type,
                               const Buffers& buffers)
    : model_(model),
      backend_(backend),
      kv_type_(kv_type),
      groups_(group_layers(model.config())),
      ropes_(backend.memory(), model.config(), model.rope_divisors(), buffers.qkv.n_rows),
      buffers_(buffers),
      latent_(model, backend, buffers.latent),
      query_scaling_(backend, buffers.query_factors),
      zeros_(buffers.scratch.n_cols) {
  temperatures_.reserve(buffers.qkv.n_rows);
  for (const LayerConfig& layer : model.config().layers) {
    if (layer.if_attention() && temperature_.scale == 0) {
      temperature_ = layer.attention().temperature;
    }
  }
  const std::vector<float> ones(buffers_.ones.n_cols, 1.0f);
  if (!ones.empty()) {
    backend.memory().copy_in(reinterpret_cast<std::byte*>(buffers_.ones.data),
                             std::as_bytes(std::span(ones)));
  }
  for (uint32_t group = 0; group < groups_.n_groups(); ++group) {
    geometries_.push_back(kv_geometry(groups_, group, kv_type));
  }
  if (buffers_.indexer.selected.n_cols > 0) {
    indexer_.emplace(model, backend, groups_, kv_type, buffers_.indexer);
  }
  if (buffers_.joint.down.n_cols > 0) {
    joint_.emplace(model, backend, groups_, kv_type, buffers_.joint);
  }
}

size_t AttentionBlock::page_bytes() const {
  return kvik::page_bytes(model_.config(), kv_type_, backend_);
}

void AttentionBlock::begin_step(std::span<const uint32_t> positions, const GroupRuns& runs) {
  ropes_.prepare(positions);
  query_scaling_.prepare(positions);
  compute_temperatures(positions);
  positions_ = positions;
  runs_ = &runs;
  if (indexer_) indexer_->begin_step(positions, states_);
  if (joint_) joint_->begin_step(positions, states_);
}

void AttentionBlock::compute_temperatures(std::span<const uint32_t> positions) {
  temperatures_.clear();
  const TemperatureConfig& t = temperature_;
  const auto is_far = [&](uint32_t position) { return position + t.first >= t.length; };
  if (t.scale == 0 || std::ranges::none_of(positions, is_far)) return;
  for (const uint32_t position : positions) {
    const double n = 1 + (position + t.first) / t.length;
    temperatures_.push_back(static_cast<float>(1 + t.scale * std::log(n)));
  }
}

KvTarget AttentionBlock::target(uint32_t layer) const {
  const auto [group, place] = groups_.places[layer];
  return {.geometry = geometries_[group], .layer = place, .runs = (*runs_)[group]};
}

JointAttention::Targets AttentionBlock::joint_targets(uint32_t layer) const {
  const EntriesConfig& entries = config_of(layer).joint.entries;
  const KvTarget own = target(layer);
  if (!entries.exist()) return {.kv = own, .entries = {.kv = own}};
  const auto& [place, first_slot] = groups_.entry_places[layer];
  const KvTarget of_entries{
      .geometry = geometries_[place.group], .layer = place.layer, .runs = (*runs_)[place.group]};
  return {.kv = own,
          .entries = {.kv = of_entries, .n_tokens = entries.n_tokens, .first_slot = first_slot}};
}

void AttentionBlock::write_kv(uint32_t layer, ResidualStream& x) {
  if (joint_ && config_of(layer).joint.exists()) {
    q_ = buffers_.latent_q.slice(0, x.n_rows()).columns(0, config_of(layer).q_dim());
    gate_ = {};
    return joint_->write(layer, joint_targets(layer), ropes_, x, q_);
  }
  if (!config_of(layer).latent.rank) {
    return write_kv(layer, x.normed(model_.layers()[layer].attention.norm));
  }
  q_ = write_latent(layer, x);
  scale_queries(layer);
}

void AttentionBlock::write_kv(uint32_t layer, Rows input) {
  q_ = write_heads(layer, input);
  scale_queries(layer);
}

void AttentionBlock::scale_queries(uint32_t layer) {
  const bool has_temperature = config_of(layer).temperature.scale != 0;
  if (has_temperature && !temperatures_.empty()) backend_.scale_rows(q_, temperatures_);
  query_scaling_.scale(model_.layers()[layer].attention.ssmax, q_, config_of(layer).head_dim);
}

Rows AttentionBlock::write_latent(uint32_t layer, ResidualStream& x) {
  const Rows q = buffers_.latent_q.slice(0, x.n_rows()).columns(0, config_of(layer).q_dim());
  const Rows in = x.normed(model_.layers()[layer].attention.norm);
  const auto projected = latent_.project(layer, in, ropes_, q);
  gate_ = projected.gate;
  const KvTarget to = target(layer);
  if (projected.k.n_cols > 0) backend_.write_kv(to, projected.k, {});
  if (config_of(layer).indexer.is_own()) {
    indexer_->write(layer, {in, projected.low_q, to.runs}, ropes_, query_scaling_);
  }
  return q;
}

Rows AttentionBlock::write_heads(uint32_t layer, Rows input) {
  const ModelConfig& c = model_.config();
  const AttentionConfig& a = config_of(layer);
  const AttentionWeights& w = model_.layers()[layer].attention;
  const Rows all = buffers_.qkv.slice(0, input.n_rows).columns(0, a.qkv_dim() + a.gate_dim());
  const Rows qkv = all.columns(0, w.qkv->n_rows());
  const Rows q = qkv.columns(0, a.q_dim());
  const Rows k = all.columns(a.q_dim(), a.kv_dim());
  const Rows own_v = all.columns(a.q_dim() + a.kv_dim(), a.v_dim());
  gate_ = all.columns(a.qkv_dim(), a.gate_dim());

  backend_.matmul(input, *w.qkv, qkv);
  if (w.qkv_bias.size() > 0) backend_.add_bias(qkv.columns(0, a.qkv_dim()), w.qkv_bias.floats());
  if (!a.is_norm_after_rope) norm_queries(layer, q);
  if (a.shared_kv) {
    turn(a, q);
    if (a.is_norm_after_rope) norm_queries(layer, q);
    if (bases_.has(layer)) backend_.change_basis(q, bases_.queries(layer));
    return q;
  }
  if (qkv.n_cols < a.qkv_dim()) {
    const auto heads = [&](Rows of) {
      return HeadRows{of, a.n_kv_heads, a.head_dim, 0, a.head_dim};
    };
    backend_.copy_heads(heads(k), heads(own_v));
  }
  const Rows v = stored_values(a, own_v);
  if (!a.is_norm_after_rope) norm_keys(layer, k);
  if (a.has_v_norm) backend_.rms_norm(v, buffers_.ones.data, a.head_dim, c.norm_eps, v);
  if (statistics_) observe(layer, k);
  turn(a, all.columns(0, a.q_dim() + a.kv_dim()));
  if (a.is_norm_after_rope) {
    norm_queries(layer, q);
    norm_keys(layer, k);
  }
  if (bases_.has(layer)) {
    backend_.change_basis(q, bases_.queries(layer));
    backend_.change_basis(k, bases_.keys(layer));
  }
  if (bases_.has_values(layer)) backend_.change_basis(v, bases_.values(layer));
  const KvTarget to = target(layer);
  backend_.write_kv(to, k, v);
  if (a.indexer.is_own()) indexer_->write(layer, {input, {}, to.runs}, ropes_, query_scaling_);
  return q;
}

// Measures K after rotation to positions that are spread over the context, then restores it. Skips
// the first token: in many models its K is unusual, because it serves as an attention sink.
void AttentionBlock::observe(uint32_t layer, Rows k) {
  std::vector<uint32_t> positions;
  for (uint32_t i = 0; i < k.n_rows; ++i) positions.push_back(i * kObservedPositions / k.n_rows);
  ropes_.prepare(positions);
  std::vector<std::vector<float>> before(k.n_rows, std::vector<float>(k.n_cols));
  const auto row = [&](uint32_t i) {
    return reinterpret_cast<std::byte*>(k.data + size_t{i} * k.stride);
  };
  for (uint32_t i = 0; i < k.n_rows; ++i) {
    backend_.memory().copy_out(std::as_writable_bytes(std::span(before[i])), row(i));
  }
  turn(config_of(layer), k);
  if (config_of(layer).is_norm_after_rope) norm_keys(layer, k);
  std::vector<float> rotated(k.n_cols);
  for (uint32_t i = 0; i < k.n_rows; ++i) {
    backend_.memory().copy_out(std::as_writable_bytes(std::span(rotated)), row(i));
    if (i > 0) statistics_->add(layer, rotated);
    backend_.memory().copy_in(row(i), std::as_bytes(std::span(before[i])));
  }
  ropes_.prepare(positions_);
}

void AttentionBlock::norm_queries(uint32_t layer, Rows q) {
  norm_heads(config_of(layer), config_of(layer).q_norm_dim(),
             model_.layers()[layer].attention.q_norm, q);
}

void AttentionBlock::norm_keys(uint32_t layer, Rows k) {
  norm_heads(config_of(layer), config_of(layer).k_norm_dim(),
             model_.layers()[layer].attention.k_norm, k);
}

void AttentionBlock::norm_heads(const AttentionConfig& a, uint32_t norm_dim, const Buffer& norm,
                                Rows heads) {
  const float eps = model_.config().norm_eps;
  if (a.qk_norm == QkNorm::kPlain) {
    backend_.rms_norm(heads, buffers_.ones.data, a.head_dim, eps, heads);
    return;
  }
  if (norm.size() == 0) return;
  if (a.qk_norm != QkNorm::kLayerPerHead) {
    backend_.rms_norm(heads, norm.floats(), norm_dim, eps, heads);
    return;
  }
  for (uint32_t first = 0; first < heads.n_cols; first += a.head_dim) {
    const Rows head = heads.columns(first, a.head_dim);
    backend_.layer_norm(head, norm.floats() + first, nullptr, eps, head);
  }
}

void AttentionBlock::turn(const AttentionConfig& a, Rows heads) {
  if (!a.has_rope) return;
  backend_.rope(heads, a.head_dim, ropes_.pairing(a.rope), ropes_.angles(a.rope));
}

void AttentionBlock::keep(std::span<const uint32_t> rows, const GroupRuns& runs) {
  const bool follow = kv_source_of(model_.config().layers.back()).has_value() || joint_;
  const Rows q = buffers_.wanted_q.slice(0, static_cast<uint32_t>(rows.size()));
  const Rows kept = q.columns(0, q_.n_cols);
  if (indexer_) indexer_->keep(rows);
  if (joint_) joint_->keep(rows);
  backend_.gather(q_, rows, kept);
  if (gate_.n_cols > 0) {
    const Rows kept_gate = q.columns(q_.n_cols, gate_.n_cols);
    backend_.gather(gate_, rows, kept_gate);
    gate_ = kept_gate;
  }
  q_ = kept;
  runs_ = &runs;
  if (!follow) return;
  kept_positions_.clear();
  for (const uint32_t row : rows) kept_positions_.push_back(positions_[row]);
  ropes_.prepare(kept_positions_);
  query_scaling_.prepare(kept_positions_);
  compute_temperatures(kept_positions_);
}

void AttentionBlock::gate_output(const AttentionConfig& a, Rows heads) {
  if (gate_.n_cols == 0) return;
  const bool is_softplus = a.gate_function == GateFunction::kSoftplus;
  if (a.output_gate != OutputGate::kPerHead && !is_softplus) {
    backend_.gated_activation(Activation::kSigmoid, gate_, heads, heads);
    return;
  }
  const Rows scratch = buffers_.scratch.slice(0, gate_.n_rows).columns(0, gate_.n_cols);
  const auto zeros = std::span<const float>(zeros_).first(gate_.n_cols);
  if (is_softplus) {
    backend_.state_steps(gate_, scratch, zeros, zeros);
  } else {
    backend_.state_gates(scratch, gate_, zeros, zeros);
  }
  if (a.output_gate == OutputGate::kPerHead) {
    backend_.scale_heads(heads, a.latent.rank ? a.latent.value_dim : a.head_dim, gate_);
  } else {
    backend_.gated_activation(Activation::kNone, gate_, heads, heads);
  }
}

Rows AttentionBlock::heads_of(const AttentionConfig& a, uint32_t n_rows) const {
  const uint32_t heads_dim = a.latent.rank ? a.n_heads * a.latent.rank : a.q_dim();
  return buffers_.heads.slice(0, n_rows).columns(0, heads_dim);
}

// Within its chunk, a token attends to all earlier ones. The first page of a chunk becomes the
// first page of a run, so that the positions of a run are those in its chunk.
std::span<const KvRun> AttentionBlock::runs_in_chunks(std::span<const KvRun> runs,
                                                      uint32_t chunk_tokens) {
  chunk_runs_.clear();
  for (const KvRun& run : runs) {
    const uint32_t end = run.first_position + run.n_rows;
    for (uint32_t position = run.first_position; position < end;) {
      const uint32_t chunk_begin = position - position % chunk_tokens;
      const uint32_t n_rows = std::min(end, chunk_begin + chunk_tokens) - position;
      const uint32_t page = position / kPageTokens;
      const uint32_t n_pages = (position + n_rows - 1) / kPageTokens - page + 1;
      const bool has_open = !run.open.empty();
      chunk_runs_.push_back(
          {.pages = run.pages.subspan(chunk_begin / kPageTokens),
           .first_position = position - chunk_begin,
           .first_row = run.first_row + position - run.first_position,
           .n_rows = n_rows,
           .open = has_open ? run.open.subspan(page - run.first_position / kPageTokens, n_pages)
                            : run.open});
      position += n_rows;
    }
  }
  return chunk_runs_;
}

void AttentionBlock::gather(const KvTarget& kv, uint32_t layer, uint32_t window, Rows heads) {
  const AttentionConfig& a = config_of(layer);
  const AttentionWeights& w = model_.layers()[layer].attention;
  const SelectedTokens selected = a.indexer.n_top > 0 ? indexer_->selected() : SelectedTokens();
  backend_.attention(kv,
                     {.n_heads = a.n_heads,
                      .scale = a.scale,
                      .soft_cap = a.soft_cap,
                      .window = window,
                      .sinks = w.sinks.size() > 0 ? w.sinks.floats() : nullptr,
                      .selected = selected.n_top > 0 ? &selected : nullptr},
                     q_, heads);
}

Rows AttentionBlock::stored_values(const AttentionConfig& a, Rows v) {
  if (a.value_scale != 1.0f) backend_.scale(v, a.value_scale);
  if (a.value_dim == 0) return v;
  const Rows padded = buffers_.narrow.slice(0, v.n_rows).columns(0, a.kv_dim());
  backend_.clear(padded);
  backend_.copy_heads({v, a.n_kv_heads, a.value_dim, 0, a.value_dim},
                      {padded, a.n_kv_heads, a.head_dim, 0, a.value_dim});
  return padded;
}

void AttentionBlock::project(uint32_t layer, Rows heads, ResidualStream& x) {
  const AttentionWeights& w = model_.layers()[layer].attention;
  if (bases_.has_values(layer)) backend_.change_basis(heads, bases_.outputs(layer));
  const AttentionConfig& a = config_of(layer);
  if (a.latent.rank) heads = latent_.values(layer, heads);
  gate_output(a, heads);
  if (a.value_dim) {
    const Rows narrow = buffers_.narrow.slice(0, heads.n_rows).columns(0, a.output_dim());
    backend_.copy_heads({heads, a.n_heads, a.head_dim, 0, a.value_dim},
                        {narrow, a.n_heads, a.value_dim, 0, a.value_dim});
    heads = narrow;
  }
  x.add_projection(heads, {.weights = *w.output, .bias = w.output_bias, .post_norm = w.post_norm});
}

void AttentionBlock::attend(uint32_t layer, ResidualStream& x) {
  const AttentionConfig& a = config_of(layer);
  const Rows heads = heads_of(a, x.n_rows());
  if (a.joint.exists()) {
    return joint_->attend(layer, joint_targets(layer), ropes_, q_, heads, x);
  }
  KvTarget kv = target(layer);
  if (a.is_chunked) kv.runs = runs_in_chunks(kv.runs, a.window);
  if (a.indexer.is_own()) indexer_->select();
  gather(kv, layer, a.is_chunked ? 0 : a.window, heads);
  project(layer, heads, x);
}

// Uses a window at most as long as the row's position, which excludes the first token.
void AttentionBlock::attend_after_first(uint32_t layer, ResidualStream& x) {
  const AttentionConfig& a = config_of(layer);
  const Rows heads = heads_of(a, x.n_rows());
  const KvTarget all = target(layer);
  for (const KvRun& run : all.runs) {
    CHECK(run.n_rows == 1 && run.first_position > 0);
    const KvTarget one{.geometry = all.geometry, .layer = all.layer, .runs = {&run, 1}};
    const uint32_t window = a.window ? std::min(a.window, run.first_position) : run.first_position;
    if (a.indexer.is_own()) indexer_->select(run, window);
    gather(one, layer, window, heads);
  }
  if (a.joint.exists()) return joint_->project(layer, ropes_, heads, x);
  project(layer, heads, x);
}

}  // namespace kvik
