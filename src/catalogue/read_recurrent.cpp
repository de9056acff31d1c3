#include "catalogue/read_recurrent.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "catalogue/limits.h"

namespace kvik {
namespace {

constexpr uint64_t kMaxTaps = 16;
constexpr uint32_t kUsualInterval = 4;  // one layer in so many attends, where no key says more
constexpr uint32_t kLanes = 16;         // heads are whole runs of so many channels

Result<void> check_lanes(const KeyReader& keys, std::string_view key, uint32_t dim) {
  if (dim % kLanes == 0) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("'{}' makes heads of {} channels, expected a "
                                                   "multiple of {}",
                                                   keys.full(key), dim, kLanes));
}

Result<DeltaConfig> read_delta(const KeyReader& keys, const Family& family) {
  DeltaConfig d{.order = family.value_heads, .is_gate_fused = family.is_delta_gate_fused};
  TRY_ASSIGN(d.n_key_heads, keys.count("ssm.group_count", kMaxHeads));
  TRY_ASSIGN(d.n_value_heads, keys.count("ssm.time_step_rank", kMaxHeads));
  TRY_ASSIGN(d.key_dim, keys.count("ssm.state_size", kMaxHeadDim));
  TRY_ASSIGN(d.n_taps, keys.count("ssm.conv_kernel", kMaxTaps));
  TRY_ASSIGN(const uint32_t inner, keys.count("ssm.inner_size", kMaxDim));
  if (d.n_value_heads % d.n_key_heads != 0 || inner % d.n_value_heads != 0 || d.n_taps < 2) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("'{}' is {} with {} value heads over {} key heads and {} taps: expected "
                    "whole heads, a whole number of them to a key head, and 2 taps or more",
                    keys.full("ssm.inner_size"), inner, d.n_value_heads, d.n_key_heads, d.n_taps));
  }
  d.value_dim = inner / d.n_value_heads;
  TRY(check_lanes(keys, "ssm.state_size", d.key_dim));
  TRY(check_lanes(keys, "ssm.inner_size", d.value_dim));
  if (uint64_t{d.keys_dim()} * 2 + uint64_t{2} * inner <= kMaxDim) return d;
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {} beside {} channels of keys, expected at most {} together",
                          keys.full("ssm.inner_size"), inner, d.keys_dim(), kMaxDim));
}

Result<ShortConvConfig> read_short_conv(const KeyReader& keys, const ModelConfig& config) {
  ShortConvConfig s{.dim = config.model_dim};
  TRY_ASSIGN(s.n_taps, keys.count("shortconv.l_cache", kMaxTaps));
  if (s.n_taps > 1) return s;
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected 2 taps or more",
                                               keys.full("shortconv.l_cache"), s.n_taps));
}

Result<StateSpaceConfig> read_state_space(const KeyReader& keys) {
  StateSpaceConfig s;
  TRY_ASSIGN(s.n_heads, keys.count("ssm.time_step_rank", kMaxHeads));
  TRY_ASSIGN(s.n_groups, keys.count("ssm.group_count", kMaxHeads));
  TRY_ASSIGN(s.state_dim, keys.count("ssm.state_size", kMaxHeadDim));
  TRY_ASSIGN(s.n_taps, keys.count("ssm.conv_kernel", kMaxTaps));
  TRY_ASSIGN(const uint32_t inner, keys.count("ssm.inner_size", kMaxDim));
  if (s.n_heads % s.n_groups != 0 || inner % s.n_heads != 0 || s.n_taps < 2) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {} with {} heads in {} groups and {} taps: expected whole "
                            "heads, a whole number of them in a group, and 2 taps or more",
                            keys.full("ssm.inner_size"), inner, s.n_heads, s.n_groups, s.n_taps));
  }
  s.head_dim = inner / s.n_heads;
  TRY(check_lanes(keys, "ssm.state_size", s.state_dim));
  TRY(check_lanes(keys, "ssm.inner_size", s.head_dim));
  if (uint64_t{2} * inner + uint64_t{2} * s.n_groups * s.state_dim <= kMaxDim) return s;
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {} with {} groups of {} channels, expected at most {} together",
                          keys.full("ssm.inner_size"), inner, s.n_groups, s.state_dim, kMaxDim));
}

// Layers of which the file lists no KV heads remember in another way.
template <class Mixer>
Result<void> replace_listed(const KeyReader& keys, const Mixer& mixer, ModelConfig& config) {
  TRY_ASSIGN(const std::vector<uint32_t> n_kv_heads,
             keys.counts_or_none("attention.head_count_kv", config.n_layers, kMaxHeads));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (n_kv_heads[i] == 0) config.layers[i].mixer = mixer;
  }
  return {};
}

}  // namespace

Result<void> read_recurrent_layers(const KeyReader& keys, const Family& family,
                                   ModelConfig& config) {
  if (family.recurrence == Recurrence::kNone) return {};
  if (family.recurrence == Recurrence::kShortConv) {
    TRY_ASSIGN(const ShortConvConfig conv, read_short_conv(keys, config));
    return replace_listed(keys, conv, config);
  }
  if (family.recurrence == Recurrence::kStateSpace) {
    TRY_ASSIGN(const StateSpaceConfig space, read_state_space(keys));
    return replace_listed(keys, space, config);
  }
  TRY_ASSIGN(const DeltaConfig delta, read_delta(keys, family));
  TRY_ASSIGN(const uint32_t interval,
             keys.count("full_attention_interval", kMaxLayers, kUsualInterval));
  if (interval > config.n_layers) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {} in a model of {} layers: expected a layer that attends",
                            keys.full("full_attention_interval"), interval, config.n_layers));
  }
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if ((i + 1) % interval != 0) config.layers[i].mixer = delta;
  }
  return {};
}

}  // namespace kvik
