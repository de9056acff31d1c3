#include "model/recurrent/recurrent_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "model/tensor_loader.h"

namespace kvik {
namespace {

using enum TensorRole;

// Loads convolution weights and transposes them to [kernel_size, channels], because neighboring
// channels are computed together.
Result<Buffer> load_conv_weights(TensorLoader& tensors, TensorId id, uint32_t kernel_size) {
  TRY_ASSIGN(const std::vector<float> by_channel, tensors.host_vectors({id.role}, id.layer));
  const size_t n_channels = by_channel.size() / kernel_size;
  std::vector<float> by_tap(by_channel.size());
  for (size_t channel = 0; channel < n_channels; ++channel) {
    for (size_t tap = 0; tap < kernel_size; ++tap) {
      by_tap[tap * n_channels + channel] = by_channel[channel * kernel_size + tap];
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
Result<void> load_heads(TensorLoader& tensors, uint32_t kernel_size, uint32_t layer,
                        RecurrentWeights& w) {
  TRY_ASSIGN(w.conv_weights, load_conv_weights(tensors, {kStateConv, layer}, kernel_size));
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
    TRY_ASSIGN(
        w.in, tensors.matrix({kQkv, kOutputGate, kStateGates}, layer, {kStateGates, per_key_head}));
  } else {
    TRY_ASSIGN(w.in, tensors.matrix({kQkv, kOutputGate, kStateBeta, kStateAlpha}, layer));
  }
  return load_heads(tensors, config.kernel_size, layer, w);
}

Result<void> load(TensorLoader& tensors, const StateSpaceConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  TRY_ASSIGN(w.in, tensors.matrix({kSpaceIn}, layer));
  TRY_ASSIGN(w.conv_bias, tensors.vectors({kSpaceConvBias}, layer));
  TRY_ASSIGN(w.skips, tensors.host_vectors({kSpaceSkip}, layer));
  return load_heads(tensors, config.kernel_size, layer, w);
}

Result<void> load(TensorLoader& tensors, const ShortConvConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  TRY_ASSIGN(w.in, tensors.matrix({kConvIn}, layer));
  TRY_ASSIGN(w.conv_weights, load_conv_weights(tensors, {kConvWeights, layer}, config.kernel_size));
  TRY_ASSIGN(w.output, tensors.matrix({kConvOutput}, layer));
  return {};
}

}  // namespace

Result<RecurrentWeights> load_recurrent(TensorLoader& tensors, const LayerConfig& config,
                                        uint32_t layer) {
  RecurrentWeights w;
  if (!config.beside) {
    TRY_ASSIGN(w.norm, tensors.vectors({kAttentionNorm}, layer));
  }
  Result<void> loaded;
  config.visit_state([&](const auto& own) { loaded = load(tensors, own, layer, w); });
  TRY(loaded);
  return w;
}

}  // namespace kvik
