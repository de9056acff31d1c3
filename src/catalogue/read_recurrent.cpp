#include "catalogue/read_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "catalogue/limits.h"
#include "tensor/scan_limits.h"

namespace kvik {
namespace {

// Default interval of attention layers: every n-th layer has attention.
constexpr uint32_t kUsualInterval = 4;

Result<void> check_lanes(const KeyReader& keys, std::string_view key, uint32_t dim) {
  if (dim % kStateLanes == 0) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("'{}' makes heads of {} channels, expected a "
                                                   "multiple of {}",
                                                   keys.full(key), dim, kStateLanes));
}

// Geometry of layers with a state matrix per head. Heads share their keys in groups.
struct Matrices {
  uint32_t n_heads = 0, n_groups = 0;
  uint32_t key_dim = 0, value_dim = 0;  // of a head
  uint32_t kernel_size = 0;
};

Result<Matrices> read_matrices(const KeyReader& keys) {
  Matrices m;
  TRY_ASSIGN(m.n_heads, keys.count("ssm.time_step_rank", kMaxHeads));
  TRY_ASSIGN(m.n_groups, keys.count("ssm.group_count", kMaxHeads));
  TRY_ASSIGN(m.key_dim, keys.count("ssm.state_size", kMaxHeadDim));
  TRY_ASSIGN(m.kernel_size, keys.count("ssm.conv_kernel", kMaxKernelSize));
  TRY_ASSIGN(const uint32_t inner, keys.count("ssm.inner_size", kMaxDim));
  if (m.n_heads % m.n_groups != 0 || inner % m.n_heads != 0 || m.kernel_size < 2) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("'{}' is {} with {} heads in {} groups and {} taps: expected whole "
                    "heads, an integer of them in a group, and 2 taps or more",
                    keys.full("ssm.inner_size"), inner, m.n_heads, m.n_groups, m.kernel_size));
  }
  m.value_dim = inner / m.n_heads;
  TRY(check_lanes(keys, "ssm.state_size", m.key_dim));
  TRY(check_lanes(keys, "ssm.inner_size", m.value_dim));
  if (uint64_t{2} * inner + uint64_t{2} * m.n_groups * m.key_dim <= kMaxDim) return m;
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {} with {} groups of {} channels, expected at most {} together",
                          keys.full("ssm.inner_size"), inner, m.n_groups, m.key_dim, kMaxDim));
}

Result<DeltaConfig> read_delta(const KeyReader& keys, const Family& family) {
  TRY_ASSIGN(const Matrices m, read_matrices(keys));
  return DeltaConfig{.n_key_heads = m.n_groups,
                     .n_value_heads = m.n_heads,
                     .key_dim = m.key_dim,
                     .value_dim = m.value_dim,
                     .kernel_size = m.kernel_size,
                     .order = family.recurrence.value_heads,
                     .is_gate_fused = family.recurrence.is_delta_gate_fused};
}

Result<StateSpaceConfig> read_state_space(const KeyReader& keys) {
  TRY_ASSIGN(const Matrices m, read_matrices(keys));
  return StateSpaceConfig{.n_heads = m.n_heads,
                          .head_dim = m.value_dim,
                          .n_groups = m.n_groups,
                          .state_dim = m.key_dim,
                          .kernel_size = m.kernel_size};
}

// Adds a state space to the attention of every layer, and reads the factors of both, which are 1 in
// files whose weights include them.
Result<void> add_state_spaces(const KeyReader& keys, StateSpaceConfig space, ModelConfig& config) {
  space.is_norm_optional = true;
  if (keys.has("ssm.in_scales")) {
    TRY_ASSIGN(const auto scales, keys.reals("ssm.in_scales", space.in_scales.size()));
    std::ranges::copy(scales, space.in_scales.begin());
  }
  TRY_ASSIGN(space.out_scale, keys.positive("ssm.out_scale", 1.0));
  for (LayerConfig& layer : config.layers) layer.beside = space;
  return {};
}

// Reads the lower bound of the exponents of KDA's decays.
Result<float> read_kda_bound(const KeyReader& keys) {
  TRY_ASSIGN(const bool is_bounded, keys.flag("kda.safe_gate", true));
  if (!is_bounded) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is false, expected true", keys.full("kda.safe_gate")));
  }
  TRY_ASSIGN(const auto bound, keys.reals("kda.gate_lower_bound", 1));
  if (bound.front() < 0) return bound.front();
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected a number < 0",
                                               keys.full("kda.gate_lower_bound"), bound.front()));
}

Result<ShortConvConfig> read_short_conv(const KeyReader& keys, const ModelConfig& config) {
  ShortConvConfig s{.dim = config.model_dim};
  TRY_ASSIGN(s.kernel_size, keys.count("shortconv.l_cache", kMaxKernelSize));
  if (s.kernel_size > 1) return s;
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected 2 taps or more",
                                               keys.full("shortconv.l_cache"), s.kernel_size));
}

Result<KdaConfig> read_kda(const KeyReader& keys, const Family& family, const ModelConfig& config) {
  KdaConfig k{.n_heads = config.attention().n_heads,
              .is_low_rank = !family.recurrence.is_kda_bounded,
              .has_negative_factors = !family.recurrence.is_kda_bounded};
  const bool has_optional =
      family.recurrence.is_kda_bound_optional && keys.has("kda.gate_lower_bound");
  if (family.recurrence.is_kda_bounded || has_optional) {
    TRY_ASSIGN(k.bound, read_kda_bound(keys));
  }
  TRY_ASSIGN(k.head_dim, keys.count("kda.head_dim", kMaxHeadDim));
  TRY_ASSIGN(k.kernel_size, keys.count("ssm.conv_kernel", kMaxKernelSize));
  if (k.kernel_size > 1 && uint64_t{k.n_heads} * k.head_dim * 4 <= kMaxDim) {
    TRY(check_lanes(keys, "kda.head_dim", k.head_dim));
    return k;
  }
  return fail(
      ErrorCode::kCorrupt,
      fmt::format("'{}' is {} with {} heads and {} taps, expected at most {} columns, and 2 "
                  "taps or more",
                  keys.full("kda.head_dim"), k.head_dim, k.n_heads, k.kernel_size, kMaxDim));
}

Result<SelectiveConfig> read_selective(const KeyReader& keys) {
  SelectiveConfig s;
  TRY_ASSIGN(s.inner_dim, keys.count("ssm.inner_size", kMaxDim));
  TRY_ASSIGN(s.step_rank, keys.count("ssm.time_step_rank", kMaxDim));
  TRY_ASSIGN(s.state_dim, keys.count("ssm.state_size", kMaxScanState));
  TRY_ASSIGN(s.kernel_size, keys.count("ssm.conv_kernel", kMaxKernelSize));
  if (s.inner_dim % kStateLanes == 0 && s.kernel_size > 1) return s;
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' is {} with {} taps: expected a multiple of {}, and 2 taps or more",
                          keys.full("ssm.inner_size"), s.inner_dim, s.kernel_size, kStateLanes));
}

// Replaces the attention of layers for which the file lists no KV heads.
template <class Mixer>
Result<void> replace_listed(const KeyReader& keys, const Mixer& mixer, ModelConfig& config) {
  TRY_ASSIGN(const std::vector<uint32_t> n_kv_heads,
             keys.counts_or_none("attention.head_count_kv", config.n_listed_layers(), kMaxHeads));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (n_kv_heads[i] == 0) config.layers[i].mixer = mixer;
  }
  return {};
}

// Replaces the attention of gated-delta-rule layers. They are listed, or they are all layers but
// every n-th.
Result<void> replace_delta(const KeyReader& keys, const DeltaConfig& delta, ModelConfig& config) {
  constexpr std::string_view kList = "attention.recurrent_layers";
  TRY_ASSIGN(const std::vector<bool> listed, keys.flags(kList, config.n_listed_layers()));
  TRY_ASSIGN(const uint32_t interval,
             keys.count("full_attention_interval", kMaxLayers, kUsualInterval));
  uint32_t n_attending = 0;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    const bool remembers = listed.empty() ? (i + 1) % interval != 0 : listed[i];
    if (remembers) config.layers[i].mixer = delta;
    n_attending += remembers ? 0 : 1;
  }
  if (n_attending > 0) return {};
  if (!listed.empty()) {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' lists all {} layers, expected one that "
                                                     "attends",
                                                     keys.full(kList), config.n_layers));
  }
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("'{}' is {} in a model of {} layers: expected at least one attention layer",
                  keys.full("full_attention_interval"), interval, config.n_layers));
}

}  // namespace

Result<void> read_recurrent_layers(const KeyReader& keys, const Family& family,
                                   ModelConfig& config) {
  switch (family.recurrence.kind) {
    case Recurrence::kNone:
      return {};
    case Recurrence::kShortConv: {
      TRY_ASSIGN(const ShortConvConfig conv, read_short_conv(keys, config));
      return replace_listed(keys, conv, config);
    }
    case Recurrence::kStateSpace: {
      TRY_ASSIGN(const StateSpaceConfig space, read_state_space(keys));
      if (family.recurrence.is_beside_attention) return add_state_spaces(keys, space, config);
      return replace_listed(keys, space, config);
    }
    case Recurrence::kSelective: {
      TRY_ASSIGN(const SelectiveConfig selective, read_selective(keys));
      return replace_listed(keys, selective, config);
    }
    case Recurrence::kKda: {
      TRY_ASSIGN(const KdaConfig kda, read_kda(keys, family, config));
      return replace_listed(keys, kda, config);
    }
    case Recurrence::kDelta:
      break;
  }
  TRY_ASSIGN(const DeltaConfig delta, read_delta(keys, family));
  return replace_delta(keys, delta, config);
}

}  // namespace kvik
