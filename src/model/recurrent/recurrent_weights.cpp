#include "model/recurrent/recurrent_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/check.h"
#include "model/tensor_loader.h"

namespace kvik {
namespace {

using enum TensorRole;

// Transposes [channels, n] to [n, channels], because neighboring channels are computed together.
std::vector<float> transposed(std::span<const float> by_channel, uint32_t n) {
  const size_t n_channels = by_channel.size() / n;
  std::vector<float> out(by_channel.size());
  for (size_t channel = 0; channel < n_channels; ++channel) {
    for (size_t i = 0; i < n; ++i) out[i * n_channels + channel] = by_channel[channel * n + i];
  }
  return out;
}

Result<Buffer> load_conv_weights(TensorLoader& tensors, TensorId id, uint32_t kernel_size) {
  TRY_ASSIGN(const std::vector<float> by_channel, tensors.host_vectors({id.role}, id.layer));
  return tensors.keep(transposed(by_channel, kernel_size));
}

enum class Sign : uint8_t { kNegative, kPositive };  // of factors other than 0

Result<std::vector<float>> load_factors(TensorLoader& tensors, uint32_t layer,
                                        Sign sign = Sign::kNegative) {
  TRY_ASSIGN(std::vector<float> factors, tensors.host_vectors({kStateDecay}, layer));
  const float one = sign == Sign::kNegative ? -1.0f : 1.0f;
  const auto wrong = std::ranges::find_if(factors, [&](float x) { return !(one * x >= 0); });
  if (wrong == factors.end()) return factors;
  return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' holds {}, expected numbers {} 0",
                                               name_of(TensorId{kStateDecay, layer}), *wrong,
                                               sign == Sign::kNegative ? "≤" : "≥"));
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

Result<void> load(TensorLoader& tensors, const KdaConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  if (config.is_low_rank) {
    TRY_ASSIGN(w.in, tensors.matrix({kQ, kK, kV, kDecayDown, kGateDown, kStateBeta}, layer));
  } else {
    TRY_ASSIGN(w.in, tensors.matrix({kQ, kK, kV, kStateBeta, kDecayDown, kGateDown}, layer));
  }
  TRY_ASSIGN(const std::vector<float> conv_weights,
             tensors.host_vectors({kQConv, kKConv, kVConv}, layer));
  w.conv_weights = tensors.keep(transposed(conv_weights, config.kernel_size));
  TRY_ASSIGN(w.decay_up, tensors.matrix({kDecayUp}, layer));
  TRY_ASSIGN(w.gate_up, tensors.matrix({kGateUp}, layer));
  TRY_ASSIGN(w.step_biases, tensors.host_vectors({kStateStepBias}, layer));
  TRY_ASSIGN(const std::vector<float> factors,
             load_factors(tensors, layer,
                          config.has_negative_factors ? Sign::kNegative : Sign::kPositive));
  const float sign = config.bound < 0 && config.has_negative_factors ? -1.0f : 1.0f;
  for (const float factor : factors) {
    w.factors.insert(w.factors.end(), config.head_dim, sign * factor);
  }
  TRY_ASSIGN(w.state_norm, tensors.vectors({kStateNorm}, layer));
  TRY_ASSIGN(w.output, tensors.matrix({kAttentionOutput}, layer));
  return {};
}

Result<void> load(TensorLoader& tensors, const SelectiveConfig& config, uint32_t layer,
                  RecurrentWeights& w) {
  TRY_ASSIGN(w.in, tensors.matrix({kSpaceIn}, layer));
  TRY_ASSIGN(w.conv_weights, load_conv_weights(tensors, {kStateConv, layer}, config.kernel_size));
  TRY_ASSIGN(w.conv_bias, tensors.vectors({kSpaceConvBias}, layer));
  TRY_ASSIGN(w.select, tensors.matrix({kSelect}, layer));
  TRY_ASSIGN(w.steps, tensors.matrix({kStepUp}, layer));
  TRY_ASSIGN(w.step_norm, tensors.vectors({kStepNorm}, layer));
  TRY_ASSIGN(w.in_norm, tensors.vectors({kSelectInNorm}, layer));
  TRY_ASSIGN(w.out_norm, tensors.vectors({kSelectOutNorm}, layer));
  TRY_ASSIGN(const std::vector<float> factors, load_factors(tensors, layer));
  w.scan_factors = tensors.keep(transposed(factors, config.state_dim));
  TRY_ASSIGN(w.scan_biases, tensors.vectors({kStateStepBias}, layer));
  TRY_ASSIGN(w.scan_skips, tensors.vectors({kSpaceSkip}, layer));
  TRY_ASSIGN(w.output, tensors.matrix({kStateOutput}, layer));
  return {};
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
