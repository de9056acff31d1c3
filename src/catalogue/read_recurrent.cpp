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

}  // namespace

Result<void> read_recurrent_layers(const KeyReader& keys, const Family& family,
                                   ModelConfig& config) {
  if (family.recurrence == Recurrence::kNone) return {};
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
