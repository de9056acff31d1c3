#include "format/hf/recurrence.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "catalogue/limits.h"

namespace kvik::hf {
namespace {

constexpr const char* kLinear = "linear_attention";
constexpr const char* kFull = "full_attention";

// One layer in so many attends, the last of them; where layers are listed, as they are.
Result<uint32_t> interval_of(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  if (types.empty()) return config.count("full_attention_interval", kMaxLayers);
  uint32_t interval = 0;
  while (interval < types.size() && types[interval] != kFull) ++interval;
  ++interval;
  bool is_regular = types.size() == n_layers && interval <= n_layers;
  for (uint32_t i = 0; i < types.size(); ++i) {
    is_regular = is_regular && types[i] == ((i + 1) % interval == 0 ? kFull : kLinear);
  }
  if (is_regular) return interval;
  return config.unexpected_value(
      "layer_types",
      fmt::format("one for each of {} layers, {} at equal distances and {} between", n_layers,
                  kFull, kLinear),
      ErrorCode::kUnsupported);
}

}  // namespace

Result<void> read_recurrence(const JsonObject& config, const Family& family, uint32_t n_layers,
                             GgufKeys& keys) {
  if (family.recurrence != Recurrence::kDelta) return {};
  TRY_ASSIGN(const auto has_gate, config.flag("attn_output_gate"));
  if (!has_gate.value_or(true)) {
    return config.unexpected_value("attn_output_gate", "true", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const uint32_t n_taps, config.count("linear_conv_kernel_dim", kMaxDim));
  TRY_ASSIGN(const uint32_t key_dim, config.count("linear_key_head_dim", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t value_dim, config.count("linear_value_head_dim", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t n_key_heads, config.count("linear_num_key_heads", kMaxHeads));
  TRY_ASSIGN(const uint32_t n_value_heads, config.count("linear_num_value_heads", kMaxHeads));
  TRY_ASSIGN(const uint32_t interval, interval_of(config, n_layers));
  keys.number("ssm.conv_kernel", n_taps);
  keys.number("ssm.state_size", key_dim);
  keys.number("ssm.group_count", n_key_heads);
  keys.number("ssm.time_step_rank", n_value_heads);
  keys.number("ssm.inner_size", uint64_t{n_value_heads} * value_dim);
  keys.number("full_attention_interval", interval);
  return {};
}

}  // namespace kvik::hf
