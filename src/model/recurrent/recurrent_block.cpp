#include "model/recurrent/recurrent_block.h"

#include <algorithm>
#include <variant>

#include "base/check.h"

namespace kvik {
namespace {

// added to the squared length of q and k before the square root
constexpr float kLengthEps = 1e-6f;

// Widths of a layer's buffers, in columns.
struct Widths {
  uint32_t in = 0, mixed = 0, heads = 0, decay = 0;
};
Widths widths_of(const DeltaConfig& d) { return {d.in_dim(), d.conv_dim(), d.values_dim(), 0}; }
Widths widths_of(const ShortConvConfig& s) { return {3 * s.dim, s.dim, s.dim, 0}; }
Widths widths_of(const StateSpaceConfig& s) {
  return {s.in_dim(), s.conv_dim(), s.inner_dim(), s.n_heads};
}

// `in` also has the inputs of the decays and the output gate, `decay` unused decays of the heads.
Widths widths_of(const KdaConfig& k) {
  return {k.in_dim() + 2 * k.inner_dim(), k.conv_dim(), k.inner_dim(), k.inner_dim() + k.n_heads};
}
Widths widths_of(const SelectiveConfig& s) {
  return {2 * s.inner_dim + s.selected_dim(), s.inner_dim, s.inner_dim, s.inner_dim};
}

// The columns of `in` that a recurrence reads: up to two ranges.
struct InputColumns {
  uint32_t first = 0, n = 0;
  uint32_t second = 0, n_second = 0;

  uint32_t n_cols() const { return n + n_second; }
};
InputColumns input_columns_of(const DeltaConfig& d) {  // all but the gate
  return {0, d.conv_dim(), d.conv_dim() + d.values_dim(), 2 * d.n_value_heads};
}
InputColumns input_columns_of(const ShortConvConfig& s) { return {0, s.dim, 0, 0}; }
InputColumns input_columns_of(const KdaConfig& k) {  // q, k and v; β and the decays' inputs
  return {0, k.conv_dim(), k.in_dim() - k.n_heads, k.n_heads + k.inner_dim()};
}
InputColumns input_columns_of(const SelectiveConfig& s) { return {0, s.inner_dim, 0, 0}; }
InputColumns input_columns_of(const StateSpaceConfig& s) {
  return {s.inner_dim(), s.conv_dim() + s.n_heads, 0, 0};
}

RecurrenceShape shape_of(const DeltaConfig& d) {
  return {.n_heads = d.n_value_heads,
          .n_key_heads = d.n_key_heads,
          .key_dim = d.key_dim,
          .value_dim = d.value_dim,
          .is_tiled = d.order == ValueHeadOrder::kTiled};
}
RecurrenceShape shape_of(const StateSpaceConfig& s) {
  return {.n_heads = s.n_heads,
          .n_key_heads = s.n_groups,
          .key_dim = s.state_dim,
          .value_dim = s.head_dim};
}

RecurrenceShape shape_of(const KdaConfig& k) {
  return {.n_heads = k.n_heads,
          .n_key_heads = k.n_heads,
          .key_dim = k.head_dim,
          .value_dim = k.head_dim,
          .decays_keys = true};
}
// Others have no matrices of keys and values.
std::optional<RecurrenceShape> shape_of(const auto&) { return std::nullopt; }

}  // namespace

std::optional<RecurrenceShape> recurrence_of(const LayerConfig& layer) {
  std::optional<RecurrenceShape> shape;
  layer.visit_state([&](const auto& own) { shape = shape_of(own); });
  return shape;
}

RecurrentBlock::Buffers RecurrentBlock::Buffers::take(const ModelConfig& config,
                                                      uint32_t n_rows_max, RowBuffers& buffers) {
  Widths most;
  for (const LayerConfig& layer : config.layers) {
    Widths own;
    layer.visit_state([&](const auto& recurrence) { own = widths_of(recurrence); });
    most = {std::max(most.in, own.in), std::max(most.mixed, own.mixed),
            std::max(most.heads, own.heads), std::max(most.decay, own.decay)};
  }
  Buffers taken{.in = buffers.take(n_rows_max, most.in),
                .mixed = buffers.take(n_rows_max, most.mixed),
                .heads = buffers.take(n_rows_max, most.heads),
                .kept = buffers.take(n_rows_max, most.heads),
                .decay = buffers.take(n_rows_max, most.decay),
                .draft_inputs = {}};
  const uint32_t n_draft_tokens = std::min(kMaxDraftRows, n_rows_max);
  for (const LayerConfig& layer : config.layers) {
    InputColumns recurrent_inputs;
    layer.visit_state([&](const auto& own) { recurrent_inputs = input_columns_of(own); });
    taken.draft_inputs.push_back(buffers.take(n_draft_tokens, recurrent_inputs.n_cols()));
  }
  return taken;
}

RecurrentBlock::RecurrentBlock(const Model& model, Backend& backend, const Buffers& buffers)
    : model_(model), backend_(backend), layout_(state_layout(model.config())), buffers_(buffers) {
  state_runs_.reserve(buffers.in.n_rows);
  accepted_runs_.reserve(kMaxDraftRows);
  for (const LayerConfig& layer : model.config().layers) {
    if (const auto* k = std::get_if<KdaConfig>(&layer.mixer)) zeros_.resize(k->n_heads);
  }
  draft_rows_.reserve(kMaxDraftRows);
  accepted_rows_.reserve(kMaxDraftRows);
}

void RecurrentBlock::begin_step(std::span<const Run> runs) {
  runs_ = runs;
  draft_rows_.clear();
  for (const Run& run : runs) {
    for (uint32_t i = run.n_rows - run.n_draft_tokens; i < run.n_rows; ++i) {
      draft_rows_.push_back(run.first_row + i);
    }
  }
  CHECK(draft_rows_.size() <= kMaxDraftRows);
}

std::span<const StateRun> RecurrentBlock::runs_at(uint64_t offset) {
  state_runs_.clear();
  for (const Run& run : runs_) {
    CHECK(run.state);
    float* state = reinterpret_cast<float*>(run.state) + offset;
    state_runs_.push_back({state, run.first_row, run.n_rows, run.n_draft_tokens});
  }
  return state_runs_;
}

void RecurrentBlock::advance(uint32_t layer, ResidualStream& x) {
  model_.config().layers[layer].visit_state([&](const auto& own) { advance(own, layer, x); });
}

template <class Mixer>
void RecurrentBlock::save_draft_inputs(const Mixer& mixer, uint32_t layer) {
  if (draft_rows_.empty()) return;
  const InputColumns recurrent_inputs = input_columns_of(mixer);
  const Rows aside =
      buffers_.draft_inputs[layer].slice(0, static_cast<uint32_t>(draft_rows_.size()));
  backend_.gather(buffers_.in.columns(recurrent_inputs.first, recurrent_inputs.n), draft_rows_,
                  aside.columns(0, recurrent_inputs.n));
  if (recurrent_inputs.n_second == 0) return;
  backend_.gather(buffers_.in.columns(recurrent_inputs.second, recurrent_inputs.n_second),
                  draft_rows_, aside.columns(recurrent_inputs.n, recurrent_inputs.n_second));
}

template <class Mixer>
void RecurrentBlock::restore_draft_inputs(const Mixer& mixer, uint32_t layer) {
  const InputColumns recurrent_inputs = input_columns_of(mixer);
  const Rows in = buffers_.in.slice(0, static_cast<uint32_t>(accepted_rows_.size()));
  const Rows& aside = buffers_.draft_inputs[layer];
  backend_.gather(aside.columns(0, recurrent_inputs.n), accepted_rows_,
                  in.columns(recurrent_inputs.first, recurrent_inputs.n));
  if (recurrent_inputs.n_second == 0) return;
  backend_.gather(aside.columns(recurrent_inputs.n, recurrent_inputs.n_second), accepted_rows_,
                  in.columns(recurrent_inputs.second, recurrent_inputs.n_second));
}

void RecurrentBlock::replay(std::span<const uint32_t> n_accepted_drafts) {
  CHECK(n_accepted_drafts.size() == runs_.size());
  accepted_runs_.clear();
  accepted_rows_.clear();
  uint32_t n_before = 0;  // number of draft tokens of earlier runs
  for (size_t i = 0; i < runs_.size(); ++i) {
    CHECK(n_accepted_drafts[i] <= runs_[i].n_draft_tokens);
    if (n_accepted_drafts[i] > 0) {
      accepted_runs_.push_back(
          {runs_[i].state, static_cast<uint32_t>(accepted_rows_.size()), n_accepted_drafts[i], 0});
    }
    for (uint32_t row = 0; row < n_accepted_drafts[i]; ++row)
      accepted_rows_.push_back(n_before + row);
    n_before += runs_[i].n_draft_tokens;
  }
  if (accepted_rows_.empty()) return;
  runs_ = accepted_runs_;
  const auto n_rows = static_cast<uint32_t>(accepted_rows_.size());
  for (uint32_t layer = 0; layer < model_.config().n_layers; ++layer) {
    model_.config().layers[layer].visit_state([&](const auto& own) {
      restore_draft_inputs(own, layer);
      recur(own, layer, n_rows);
    });
  }
}

void RecurrentBlock::advance(const DeltaConfig& d, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, x.n_rows()).columns(0, d.in_dim());
  backend_.matmul(x.normed(w.norm), *w.in, in);
  save_draft_inputs(d, layer);
  recur(d, layer, x.n_rows());
  backend_.rms_norm(heads_, w.state_norm.floats(), d.value_dim, model_.config().norm_eps, heads_);
  const Rows gate = in.columns(d.conv_dim(), d.values_dim());
  const Activation function = d.has_sigmoid_gate ? Activation::kSigmoid : Activation::kSilu;
  backend_.gated_activation(function, gate, heads_, heads_);
}

// Yang et al. 2024, section 3.4: convolution and SiLU of q, k and v; normalization of q and k to
// length 1; the recurrence. advance() then applies the norm and multiplies by the gate.
void RecurrentBlock::recur(const DeltaConfig& d, uint32_t layer, uint32_t n_rows) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, n_rows).columns(0, d.in_dim());
  const uint32_t after_gate = d.conv_dim() + d.values_dim();
  const Rows rate = in.columns(after_gate, d.n_value_heads);
  const Rows decay = in.columns(after_gate + d.n_value_heads, d.n_value_heads);
  const Rows mixed = buffers_.mixed.slice(0, n_rows).columns(0, d.conv_dim());
  const Rows q = mixed.columns(0, d.keys_dim());
  const Rows k = mixed.columns(d.keys_dim(), d.keys_dim());
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, d.values_dim());

  const uint64_t offset = layout_.offsets[layer];
  backend_.short_conv(
      {.conv_weights = w.conv_weights.floats(), .kernel_size = d.kernel_size, .is_activated = true},
      runs_at(offset), in.columns(0, d.conv_dim()), mixed);
  backend_.state_gates(decay, rate, w.factors, w.step_biases);
  backend_.delta_rule(shape_of(d), runs_at(offset + d.conv_state_floats()),
                      {.q = q,
                       .k = k,
                       .v = mixed.columns(2 * d.keys_dim(), d.values_dim()),
                       .decay = decay,
                       .rate = rate},
                      kLengthEps, heads_);
}

void RecurrentBlock::advance(const ShortConvConfig& s, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, x.n_rows()).columns(0, 3 * s.dim);
  const Rows b = in.columns(0, s.dim);
  backend_.matmul(x.normed(w.norm), *w.in, in);
  backend_.gated_activation(Activation::kNone, b, in.columns(2 * s.dim, s.dim), b);
  save_draft_inputs(s, layer);
  recur(s, layer, x.n_rows());
  backend_.gated_activation(Activation::kNone, in.columns(s.dim, s.dim), heads_, heads_);
}

void RecurrentBlock::recur(const ShortConvConfig& s, uint32_t layer, uint32_t n_rows) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows b = buffers_.in.slice(0, n_rows).columns(0, s.dim);
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, s.dim);
  backend_.short_conv({.conv_weights = w.conv_weights.floats(), .kernel_size = s.kernel_size},
                      runs_at(layout_.offsets[layer]), b, heads_);
}

void RecurrentBlock::advance(const StateSpaceConfig& s, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, x.n_rows()).columns(0, s.in_dim());
  const Rows gate = in.columns(0, s.inner_dim());
  const Buffer& norm =
      model_.config().layers[layer].beside ? model_.layers()[layer].attention.norm : w.norm;
  backend_.matmul(x.normed(norm), *w.in, in);
  scale_inputs(s, in);
  save_draft_inputs(s, layer);
  recur(s, layer, x.n_rows());
  backend_.gated_activation(Activation::kSilu, gate, heads_, heads_);
  const uint32_t group = s.inner_dim() / s.n_groups;
  for (uint32_t first = 0; first < w.state_norm.size() / sizeof(float); first += group) {
    const Rows of_group = heads_.columns(first, group);
    backend_.rms_norm(of_group, w.state_norm.floats() + first, group, model_.config().norm_eps,
                      of_group);
  }
  if (s.out_scale != 1.0f) backend_.scale(heads_, s.out_scale);
}

void RecurrentBlock::scale_inputs(const StateSpaceConfig& s, Rows in) {
  const auto widths = s.in_widths();
  uint32_t first = 0;
  for (size_t i = 0; i < widths.size(); first += widths[i++]) {
    if (s.in_scales[i] != 1.0f) backend_.scale(in.columns(first, widths[i]), s.in_scales[i]);
  }
}

// Dao and Gu 2024, section 7.1.
void RecurrentBlock::recur(const StateSpaceConfig& s, uint32_t layer, uint32_t n_rows) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, n_rows).columns(0, s.in_dim());
  const Rows steps = in.columns(s.inner_dim() + s.conv_dim(), s.n_heads);
  const Rows decay = buffers_.decay.slice(0, n_rows).columns(0, s.n_heads);
  const Rows mixed = buffers_.mixed.slice(0, n_rows).columns(0, s.conv_dim());
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, s.inner_dim());

  const uint64_t offset = layout_.offsets[layer];
  backend_.short_conv({.conv_weights = w.conv_weights.floats(),
                       .bias = w.conv_bias.floats(),
                       .kernel_size = s.kernel_size,
                       .is_activated = true},
                      runs_at(offset), in.columns(s.inner_dim(), s.conv_dim()), mixed);
  backend_.state_steps(steps, decay, w.factors, w.step_biases);
  backend_.state_space(shape_of(s), runs_at(offset + s.conv_state_floats()),
                       {.q = mixed.columns(s.inner_dim() + s.group_dim(), s.group_dim()),
                        .k = mixed.columns(s.inner_dim(), s.group_dim()),
                        .v = mixed.columns(0, s.inner_dim()),
                        .decay = decay,
                        .rate = steps},
                       w.skips, heads_);
}

void RecurrentBlock::advance(const KdaConfig& k, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows all = buffers_.in.slice(0, x.n_rows());
  const Rows decay = all.columns(k.in_dim(), k.inner_dim());
  const Rows gate = all.columns(k.in_dim() + k.inner_dim(), k.inner_dim());
  backend_.matmul(x.normed(w.norm), *w.in, all.columns(0, w.in->n_rows()));
  if (k.is_low_rank) {
    backend_.matmul(all.columns(k.conv_dim(), k.head_dim), *w.decay_up, decay);
    backend_.matmul(all.columns(k.conv_dim() + k.head_dim, k.head_dim), *w.gate_up, gate);
  }
  save_draft_inputs(k, layer);
  recur(k, layer, x.n_rows());
  backend_.rms_norm(heads_, w.state_norm.floats(), k.head_dim, model_.config().norm_eps, heads_);
  backend_.gated_activation(Activation::kSigmoid, gate, heads_, heads_);
}

void RecurrentBlock::recur(const KdaConfig& k, uint32_t layer, uint32_t n_rows) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, n_rows);
  const Rows rate = in.columns(k.in_dim() - k.n_heads, k.n_heads);
  const Rows decay = buffers_.decay.slice(0, n_rows).columns(0, k.inner_dim());
  const Rows unused = buffers_.decay.slice(0, n_rows).columns(k.inner_dim(), k.n_heads);
  const Rows mixed = buffers_.mixed.slice(0, n_rows).columns(0, k.conv_dim());
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, k.inner_dim());

  const uint64_t offset = layout_.offsets[layer];
  backend_.short_conv(
      {.conv_weights = w.conv_weights.floats(), .kernel_size = k.kernel_size, .is_activated = true},
      runs_at(offset), in.columns(0, k.conv_dim()), mixed);
  const Rows decay_inputs = in.columns(k.in_dim(), k.inner_dim());
  if (k.bound < 0) {
    backend_.bounded_decays(decay_inputs, decay, {w.factors, w.step_biases, k.bound});
  } else {
    backend_.state_steps(decay_inputs, decay, w.factors, w.step_biases);
  }
  backend_.clear(unused);
  backend_.state_gates(unused, rate, zeros_, zeros_);
  backend_.delta_rule(shape_of(k), runs_at(offset + k.conv_state_floats()),
                      {.q = mixed.columns(0, k.inner_dim()),
                       .k = mixed.columns(k.inner_dim(), k.inner_dim()),
                       .v = mixed.columns(2 * k.inner_dim(), k.inner_dim()),
                       .decay = decay,
                       .rate = rate},
                      kLengthEps, heads_);
}

void RecurrentBlock::advance(const SelectiveConfig& s, uint32_t layer, ResidualStream& x) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, x.n_rows()).columns(0, 2 * s.inner_dim);
  backend_.matmul(x.normed(w.norm), *w.in, in);
  save_draft_inputs(s, layer);
  recur(s, layer, x.n_rows());
  const Rows gate = in.columns(s.inner_dim, s.inner_dim);
  backend_.gated_activation(Activation::kSilu, gate, heads_, heads_);
}

// Gu and Dao 2023, algorithm 2; Lieber et al. 2024 for the norms.
void RecurrentBlock::recur(const SelectiveConfig& s, uint32_t layer, uint32_t n_rows) {
  const RecurrentWeights& w = model_.layers()[layer].recurrent;
  const Rows in = buffers_.in.slice(0, n_rows);
  const Rows selected = in.columns(2 * s.inner_dim, s.selected_dim());
  const Rows dt = selected.columns(0, s.step_rank);
  const Rows b = selected.columns(s.step_rank, s.state_dim);
  const Rows c = selected.columns(s.step_rank + s.state_dim, s.state_dim);
  const Rows mixed = buffers_.mixed.slice(0, n_rows).columns(0, s.inner_dim);
  const Rows steps = buffers_.decay.slice(0, n_rows).columns(0, s.inner_dim);
  heads_ = buffers_.heads.slice(0, n_rows).columns(0, s.inner_dim);

  const uint64_t offset = layout_.offsets[layer];
  backend_.short_conv({.conv_weights = w.conv_weights.floats(),
                       .bias = w.conv_bias.floats(),
                       .kernel_size = s.kernel_size,
                       .is_activated = true},
                      runs_at(offset), in.columns(0, s.inner_dim), mixed);
  backend_.matmul(mixed, *w.select, selected);
  const float eps = model_.config().norm_eps;
  backend_.rms_norm(dt, w.step_norm.floats(), s.step_rank, eps, dt);
  backend_.rms_norm(b, w.in_norm.floats(), s.state_dim, eps, b);
  backend_.rms_norm(c, w.out_norm.floats(), s.state_dim, eps, c);
  backend_.matmul(dt, *w.steps, steps);
  backend_.selective_scan({.factors = w.scan_factors.floats(),
                           .biases = w.scan_biases.floats(),
                           .skips = w.scan_skips.floats()},
                          runs_at(offset + s.conv_state_floats()),
                          {.x = mixed, .steps = steps, .b = b, .c = c}, heads_);
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
