#include "model/recurrent/recurrent_block.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "base/check.h"

namespace kvik {
namespace {

constexpr float kLengthEps = 1e-6f;  // below the root of a key's squared length

// Columns that a layer works in.
struct Widths {
  uint32_t in = 0, mixed = 0, heads = 0, decay = 0;
};
Widths widths_of(const AttentionConfig&) { return {}; }
Widths widths_of(const DeltaConfig& d) { return {d.in_dim(), d.conv_dim(), d.values_dim(), 0}; }
Widths widths_of(const ShortConvConfig& s) { return {3 * s.dim, s.dim, s.dim, 0}; }
Widths widths_of(const StateSpaceConfig& s) {
  return {s.in_dim(), s.conv_dim(), s.inner_dim(), s.n_heads};
}

}  // namespace

RecurrentBlock::Buffers RecurrentBlock::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  Widths most;
  for (const LayerConfig& layer : config.layers) {
    const Widths own = std::visit([](const auto& mixer) { return widths_of(mixer); }, layer.mixer);
    most = {std::max(most.in, own.in), std::max(most.mixed, own.mixed),
            std::max(most.heads, own.heads), std::max(most.decay, own.decay)};
  }
  return {.in = buffers.take(n_rows_max, most.in),
          .mixed = buffers.take(n_rows_max, most.mixed),
          .heads = buffers.take(n_rows_max, most.heads),
          .kept = buffers.take(n_rows_max, most.heads),
          .decay = buffers.take(n_rows_max, most.decay)};
}

RecurrentBlock::RecurrentBlock(const Model& model, Backend& backend, const Buffers& buffers)
    : model_(model), backend_(backend), layout_(state_layout(model.config())), buffers_(buffers) {
  state_runs_.reserve(buffers.in.n_rows);
}

// The part of the states that begins `offset` floats behind their begin.
std::span<const StateRun> RecurrentBlock::runs_at(uint64_t offset) {
  state_runs_.clear();
  for (const Run& run : runs_) {
    CHECK(run.state);
    float* state = reinterpret_cast<float*>(run.state) + offset;
    state_runs_.push_back({state, run.first_row, run.n_rows});
  }
  return state_runs_;
}

void RecurrentBlock::advance(uint32_t layer, ResidualStream& x) {
  const auto& mixer = model_.config().layers[layer].mixer;
  if (const auto* delta = std::get_if<DeltaConfig>(&mixer)) return advance(*delta, layer, x);
  if (const auto* conv = std::get_if<ShortConvConfig>(&mixer)) return advance(*conv, layer, x);
  advance(std::get<StateSpaceConfig>(mixer), layer, x);
}

// Yang et al. 2024, section 3.4: convolution and SiLU of q, k and v, length 1 of q and k, the
// recurrence, and a norm that the gate is multiplied behind.
void RecurrentBlock::advance(const DeltaConfig& d, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const uint32_t n_rows = x.n_rows();
  const Rows in = buffers_.in.slice(0, n_rows).columns(0, d.in_dim());
  const Rows gate = in.columns(d.conv_dim(), d.values_dim());
  const uint32_t behind_gate = d.conv_dim() + d.values_dim();
  const Rows rate = in.columns(behind_gate, d.n_value_heads);
  const Rows decay = in.columns(behind_gate + d.n_value_heads, d.n_value_heads);
  const Rows mixed = buffers_.mixed.slice(0, n_rows).columns(0, d.conv_dim());
  const Rows q = mixed.columns(0, d.keys_dim());
  const Rows k = mixed.columns(d.keys_dim(), d.keys_dim());
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, d.values_dim());

  backend_.matmul(x.normed(w.norm), *w.in, in);
  const uint64_t offset = layout_.offsets[layer];
  backend_.short_conv({.taps = w.taps.floats(), .n_taps = d.n_taps, .is_activated = true},
                      runs_at(offset), in.columns(0, d.conv_dim()), mixed);
  backend_.l2_norm(q, d.key_dim, kLengthEps, 1.0f / std::sqrt(static_cast<float>(d.key_dim)));
  backend_.l2_norm(k, d.key_dim, kLengthEps, 1.0f);
  backend_.state_gates(decay, rate, w.factors, w.step_biases);
  backend_.delta_rule({.n_heads = d.n_value_heads,
                       .n_key_heads = d.n_key_heads,
                       .key_dim = d.key_dim,
                       .value_dim = d.value_dim,
                       .is_tiled = d.order == ValueHeadOrder::kTiled},
                      runs_at(offset + d.conv_state_floats()),
                      {.q = q,
                       .k = k,
                       .v = mixed.columns(2 * d.keys_dim(), d.values_dim()),
                       .decay = decay,
                       .rate = rate},
                      heads_);
  backend_.rms_norm(heads_, w.state_norm.floats(), d.value_dim, model_.config().norm_eps, heads_);
  backend_.gated_activation(Activation::kSilu, gate, heads_, heads_);
}

void RecurrentBlock::advance(const ShortConvConfig& s, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const uint32_t n_rows = x.n_rows();
  const Rows in = buffers_.in.slice(0, n_rows).columns(0, 3 * s.dim);
  const Rows b = in.columns(0, s.dim);
  const Rows c = in.columns(s.dim, s.dim);
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, s.dim);

  backend_.matmul(x.normed(w.norm), *w.in, in);
  backend_.gated_activation(Activation::kNone, b, in.columns(2 * s.dim, s.dim), b);
  backend_.short_conv({.taps = w.taps.floats(), .n_taps = s.n_taps},
                      runs_at(layout_.offsets[layer]), b, heads_);
  backend_.gated_activation(Activation::kNone, c, heads_, heads_);
}

// Dao and Gu 2024, section 7.1.
void RecurrentBlock::advance(const StateSpaceConfig& s, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const uint32_t n_rows = x.n_rows();
  const Rows in = buffers_.in.slice(0, n_rows).columns(0, s.in_dim());
  const Rows gate = in.columns(0, s.inner_dim());
  const Rows steps = in.columns(s.inner_dim() + s.conv_dim(), s.n_heads);
  const Rows decay = buffers_.decay.slice(0, n_rows).columns(0, s.n_heads);
  const Rows mixed = buffers_.mixed.slice(0, n_rows).columns(0, s.conv_dim());
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, s.inner_dim());

  backend_.matmul(x.normed(w.norm), *w.in, in);
  const uint64_t offset = layout_.offsets[layer];
  backend_.short_conv({.taps = w.taps.floats(),
                       .bias = w.taps_bias.floats(),
                       .n_taps = s.n_taps,
                       .is_activated = true},
                      runs_at(offset), in.columns(s.inner_dim(), s.conv_dim()), mixed);
  backend_.state_steps(steps, decay, w.factors, w.step_biases);
  backend_.state_space({.n_heads = s.n_heads,
                        .n_key_heads = s.n_groups,
                        .key_dim = s.state_dim,
                        .value_dim = s.head_dim},
                       runs_at(offset + s.conv_state_floats()),
                       {.q = mixed.columns(s.inner_dim() + s.group_dim(), s.group_dim()),
                        .k = mixed.columns(s.inner_dim(), s.group_dim()),
                        .v = mixed.columns(0, s.inner_dim()),
                        .decay = decay,
                        .rate = steps},
                       w.skips, heads_);
  backend_.gated_activation(Activation::kSilu, gate, heads_, heads_);
  const uint32_t group = s.inner_dim() / s.n_groups;
  for (uint32_t first = 0; first < s.inner_dim(); first += group) {
    const Rows of_group = heads_.columns(first, group);
    backend_.rms_norm(of_group, w.state_norm.floats() + first, group, model_.config().norm_eps,
                      of_group);
  }
}

void RecurrentBlock::keep(std::span<const uint32_t> rows) {
  const Rows kept =
      buffers_.kept.slice(0, static_cast<uint32_t>(rows.size())).columns(0, heads_.n_cols);
  backend_.gather(heads_, rows, kept);
  heads_ = kept;
}

void RecurrentBlock::finish(uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  x.add_projection(heads_, {.weights = *w.output, .bias = {}, .post_norm = w.post_norm});
}

}  // namespace kvik
