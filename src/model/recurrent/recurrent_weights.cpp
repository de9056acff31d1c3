#include "model/recurrent/recurrent_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "model/tensor_loader.h"

namespace kvik {
namespace {

using enum TensorRole;

// Loads taps and transposes them to [n_taps, channels], because neighboring channels are computed
// together.
Result<Buffer> load_taps(TensorLoader& tensors, TensorId id, uint32_t n_taps) {
  TRY_ASSIGN(const std::vector<float> by_channel, tensors.host_vectors({id.role}, id.layer));
  const size_t n_channels = by_channel.size() / n_taps;
  std::vector<float> by_tap(by_channel.size());
  for (size_t channel = 0; channel < n_channels; ++channel) {
    for (size_t tap = 0; tap < n_taps; ++tap) {
      by_tap[tap * n_channels + channel] = by_channel[channel * n_taps + tap];
    }
  }
  return tensors.keep(by_tap);
}

Result<std::vector<float>> load_factors(TensorLoader& tensors, uint32_t layer) {
  TRY_ASSIGN(std::vector<float> factors, tensors.host_vectors({kStateDecay}, layer));
  const auto wrong = std::ranges::find_if(factors, [](float factor) { return !(factor <= 0); });
  if (wrong == factors.end()) return factors;
  return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' holds {}, expected numbers ≤ 0",
                                               name_of(TensorId{kStateDecay, layer}), *wrong));
}

// Loads what layers with matrix states have in common.
Result<void> load_heads(TensorLoader& tensors, uint32_t n_taps, uint32_t layer,
                        RecurrentWeights& w) {
  TRY_ASSIGN(w.taps, load_taps(tensors, {kStateTaps, layer}, n_taps));
  TRY_ASSIGN(w.step_biases, tensors.host_vectors({kStateStepBias}, layer));
  TRY_ASSIGN(w.factors, load_factors(tensors, layer));
  TRY_ASSIGN(w.state_norm, tensors.vectors({kStateNorm}, layer));
  TRY_ASSIGN(w.output, tensors.matrix({kStateOutput}, layer));
  return {};
}

Result<void> load(TensorLoader& tensors, const DeltaConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  if (config.is_gate_fused) {
    const uint32_t per_key_head = config.n_value_heads / config.n_key_heads;
    TRY_ASSIGN(w.in,
               tensors.matrix({kQkv, kStateGate, kStateGates}, layer, {kStateGates, per_key_head}));
  } else {
    TRY_ASSIGN(w.in, tensors.matrix({kQkv, kStateGate, kStateBeta, kStateAlpha}, layer));
  }
  return load_heads(tensors, config.n_taps, layer, w);
}

Result<void> load(TensorLoader& tensors, const StateSpaceConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  TRY_ASSIGN(w.in, tensors.matrix({kSpaceIn}, layer));
  TRY_ASSIGN(w.taps_bias, tensors.vectors({kSpaceTapsBias}, layer));
  TRY_ASSIGN(w.skips, tensors.host_vectors({kSpaceSkip}, layer));
  return load_heads(tensors, config.n_taps, layer, w);
}

Result<void> load(TensorLoader& tensors, const ShortConvConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  TRY_ASSIGN(w.in, tensors.matrix({kConvIn}, layer));
  TRY_ASSIGN(w.taps, load_taps(tensors, {kConvTaps, layer}, config.n_taps));
  TRY_ASSIGN(w.output, tensors.matrix({kConvOutput}, layer));
  return {};
}

// Never called, because layers without a state have nothing to load here.
Result<void> load(TensorLoader&, const auto&, uint32_t, RecurrentWeights&) {
  CHECK(false);
  return {};
}

}  // namespace

Result<RecurrentWeights> load_recurrent(TensorLoader& tensors, const LayerConfig& config,
                                        uint32_t layer) {
  RecurrentWeights w;
  TRY_ASSIGN(w.norm, tensors.vectors({kAttentionNorm}, layer));
  TRY(std::visit([&](const auto& mixer) { return load(tensors, mixer, layer, w); }, config.mixer));
  return w;
}

}  // namespace kvik
