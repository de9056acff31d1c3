#include "format/hf/recurrence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/limits.h"
#include "format/hf/keys/block_keys.h"
#include "format/hf/keys/kda_keys.h"
#include "format/hf/keys/layer_words.h"

namespace kvik::hf {
namespace {

// Returns the interval of attention layers, from its own key or from the list of layers. The last
// layer of each interval has attention.
Result<uint32_t> interval_of(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(std::vector<std::string> types, config.texts("layer_types"));
  if (types.empty()) return config.count("full_attention_interval", kMaxLayers);
  std::ranges::replace(types, "indexed_attention", kFull);  // Transformers' word for Qwen4-Exp
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

Result<void> read_delta(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY_ASSIGN(const auto has_gate, config.flag("attn_output_gate"));
  if (!has_gate.value_or(true)) {
    return config.unexpected_value("attn_output_gate", "true", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const uint32_t kernel_size, config.count("linear_conv_kernel_dim", kMaxDim));
  TRY_ASSIGN(const uint32_t key_dim, config.count("linear_key_head_dim", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t value_dim, config.count("linear_value_head_dim", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t n_key_heads, config.count("linear_num_key_heads", kMaxHeads));
  TRY_ASSIGN(const uint32_t n_value_heads, config.count("linear_num_value_heads", kMaxHeads));
  TRY_ASSIGN(const uint32_t interval, interval_of(config, n_layers));
  keys.number("ssm.conv_kernel", kernel_size);
  keys.number("ssm.state_size", key_dim);
  keys.number("ssm.group_count", n_key_heads);
  keys.number("ssm.time_step_rank", n_value_heads);
  keys.number("ssm.inner_size", uint64_t{n_value_heads} * value_dim);
  keys.number("full_attention_interval", interval);
  return {};
}

// Rejects a flag that adds an unsupported bias or omits a supported one.
Result<void> expect_flag(const JsonObject& config, std::string_view key, bool expected) {
  TRY_ASSIGN(const auto flag, config.flag(key));
  if (flag.value_or(expected) == expected) return {};
  return config.unexpected_value(key, expected ? "true" : "false", ErrorCode::kUnsupported);
}

// Transformers since 5.20 writes kFull and kLinear instead of "attention" and "mamba".
bool is_attention(std::string_view word) { return word == "attention" || word == kFull; }

// Rejects clamping of the state space steps, which is not supported.
Result<void> check_time_steps(const JsonObject& config) {
  TRY_ASSIGN(const auto limit, config.range("time_step_limit"));
  if (!limit || (limit->low <= 0 && std::isinf(limit->high))) return {};
  return config.unexpected_value("time_step_limit", "0 to infinity", ErrorCode::kUnsupported);
}

// Writes the KV heads per layer, 0 for layers without attention.
Result<void> list_kv_heads(const JsonObject& config, const std::vector<bool>& attends,
                           GgufKeys& keys) {
  const char* key =
      config.find("num_key_value_heads") ? "num_key_value_heads" : "num_attention_heads";
  TRY_ASSIGN(const uint32_t n_kv_heads, config.count(key, kMaxHeads));
  std::vector<uint64_t> listed;
  for (const bool own : attends) listed.push_back(own ? n_kv_heads : 0);
  keys.numbers("attention.head_count_kv", std::move(listed));
  return {};
}

// LFM2's stated MLP size is reduced to two thirds, multiplied, and rounded up to whole blocks
// (Lfm2MLP of Transformers).
Result<void> read_adjusted_width(const JsonObject& config, GgufKeys& keys) {
  const char* key = config.find("block_ff_dim") ? "block_ff_dim" : "intermediate_size";
  TRY_ASSIGN(const uint32_t stated, config.count(key, kMaxDim));
  TRY_ASSIGN(const auto adjusts, config.flag("block_auto_adjust_ff_dim"));
  if (!adjusts.value_or(true)) {
    keys.number("feed_forward_length", stated);
    return {};
  }
  TRY_ASSIGN(const uint32_t multiple, config.count("block_multiple_of", kMaxDim));
  TRY_ASSIGN(const auto factor, config.real("block_ffn_dim_multiplier"));
  const double width = std::floor(factor.value_or(1) * std::floor(2.0 * stated / 3));
  if (!(width >= 1 && width <= kMaxDim)) {
    return config.unexpected_value(
        "block_ffn_dim_multiplier",
        fmt::format("a number that gives an MLP size from 1 to {}", kMaxDim));
  }
  const auto n = static_cast<uint64_t>(width);
  keys.number("feed_forward_length", (n + multiple - 1) / multiple * multiple);
  return {};
}

Result<void> read_short_conv(const JsonObject& config, const Family& family, uint32_t n_layers,
                             GgufKeys& keys) {
  TRY(expect_flag(config, "conv_bias", false));
  TRY(expect_flag(config, "use_expert_bias", true));
  TRY_ASSIGN(const uint32_t kernel_size, config.count("conv_L_cache", kMaxDim));
  keys.number("shortconv.l_cache", kernel_size);
  std::vector<bool> attends(n_layers, false);
  if (config.find("full_attn_idxs")) {
    TRY_ASSIGN(const auto indices, config.numbers("full_attn_idxs"));
    for (const uint64_t index : indices) {
      if (index >= n_layers) {
        return config.unexpected_value("full_attn_idxs", fmt::format("numbers below {}", n_layers));
      }
      attends[index] = true;
    }
  } else {
    std::vector<std::string_view> known = {"conv", kFull};
    if (family.attention.lists_windows) known.emplace_back("sliding_attention");
    TRY_ASSIGN(const auto words, layer_words(config, "layer_types", n_layers, known));
    for (uint32_t i = 0; i < n_layers; ++i) attends[i] = words[i] != "conv";
  }
  TRY(list_kv_heads(config, attends, keys));
  if (!family.experts) return read_adjusted_width(config, keys);
  TRY_ASSIGN(const auto n_dense, config.number("num_dense_layers"));
  keys.number("leading_dense_block_count", n_dense.value_or(0));
  return {};
}

// Names of Mamba 2's sizes in a family.
struct SpaceKeys {
  const char *n_heads, *head_dim, *n_groups, *state_dim, *kernel_size;
};

Result<void> read_space(const JsonObject& config, const SpaceKeys& names, uint32_t head_dim,
                        GgufKeys& keys) {
  TRY_ASSIGN(const uint32_t n_heads, config.count(names.n_heads, kMaxHeads));
  if (head_dim == 0) {
    TRY_ASSIGN(head_dim, config.count(names.head_dim, kMaxHeadDim));
  }
  TRY_ASSIGN(const uint32_t n_groups, config.count(names.n_groups, kMaxHeads));
  TRY_ASSIGN(const uint32_t state_dim, config.count(names.state_dim, kMaxHeadDim));
  TRY_ASSIGN(const uint32_t kernel_size, config.count(names.kernel_size, kMaxDim));
  keys.number("ssm.conv_kernel", kernel_size);
  keys.number("ssm.state_size", state_dim);
  keys.number("ssm.group_count", n_groups);
  keys.number("ssm.time_step_rank", n_heads);
  keys.number("ssm.inner_size", uint64_t{n_heads} * head_dim);
  return check_time_steps(config);
}

// Granite 4-H. If head_dim is not stated, the heads share the inner dimension evenly. The shared
// expert's size is that of the MLP in models without experts.
Result<void> read_granite(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY(expect_flag(config, "mamba_proj_bias", false));
  TRY(expect_flag(config, "mamba_conv_bias", true));
  TRY(expect_flag(config, "attention_bias", false));
  const boost::json::value* width = config.find("mamba_d_head");
  uint32_t head_dim = 0;
  if (!width || *width == "auto") {
    TRY_ASSIGN(const uint32_t model_dim, config.count("hidden_size", kMaxDim));
    TRY_ASSIGN(const uint32_t expand, config.count("mamba_expand", kMaxDim));
    TRY_ASSIGN(const uint32_t n_heads, config.count("mamba_n_heads", kMaxHeads));
    head_dim = static_cast<uint32_t>(
        std::min(uint64_t{model_dim} * expand / n_heads, uint64_t{kMaxHeadDim}));
    if (head_dim == 0) {
      return config.unexpected_value("mamba_n_heads",
                                     fmt::format("at most {}", uint64_t{model_dim} * expand));
    }
  }
  TRY(read_space(
      config, {"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"},
      head_dim, keys));
  TRY_ASSIGN(const auto words,
             layer_words(config, "layer_types", n_layers, {"mamba", "attention", kLinear, kFull}));
  std::vector<bool> attends;
  for (const std::string& word : words) attends.push_back(is_attention(word));
  TRY(list_kv_heads(config, attends, keys));
  TRY_ASSIGN(const auto positions, config.text("position_embedding_type"));
  if (positions && *positions != "nope" && *positions != "rope") {
    return config.unexpected_value("position_embedding_type", "rope or nope",
                                   ErrorCode::kUnsupported);
  }
  keys.flag("rope.scaling.finetuned", positions == "rope");
  TRY_ASSIGN(const uint32_t shared_dim, config.count("shared_intermediate_size", kMaxDim));
  TRY_ASSIGN(const auto n_experts, config.number("num_local_experts"));
  keys.number(
      n_experts.value_or(0) > 0 ? "expert_shared_feed_forward_length" : "feed_forward_length",
      shared_dim);
  return {};
}

// Returns the product of factors, which are 1 unless stated.
Result<double> product_of(const JsonObject& config, std::initializer_list<const char*> factors) {
  double product = 1;
  for (const char* key : factors) {
    TRY_ASSIGN(const auto factor, config.real(key));
    product *= factor.value_or(1);
    if (!(product > 0)) return config.unexpected_value(key, "a number > 0");
  }
  return product;
}

Result<std::vector<double>> factors_of(const JsonObject& config, const char* key, size_t n) {
  TRY_ASSIGN(std::vector<double> factors, config.reals(key));
  if (factors.empty()) factors.assign(n, 1.0);
  const bool is_usual = std::ranges::all_of(factors, [](double factor) { return factor > 0; });
  if (factors.size() == n && is_usual) return factors;
  return config.unexpected_value(key, fmt::format("{} numbers > 0", n));
}

// Falcon-H1's factors of the inputs and outputs of each part. Those of Q and K are combined with
// the scale of attention, and those of its inputs and outputs with the scale of V.
Result<void> read_factors(const JsonObject& config, GgufKeys& keys) {
  constexpr const char* kAttentionIn = "attention_in_multiplier";
  TRY_ASSIGN(const uint32_t model_dim, config.count("hidden_size", kMaxDim));
  TRY_ASSIGN(const uint32_t n_heads, config.count("num_attention_heads", kMaxHeads));
  uint32_t head_dim = std::max(1u, model_dim / n_heads);
  if (config.find("head_dim")) {
    TRY_ASSIGN(head_dim, config.count("head_dim", kMaxHeadDim));
  }
  TRY_ASSIGN(const double scores,
             product_of(config, {kAttentionIn, kAttentionIn, "key_multiplier"}));
  TRY_ASSIGN(const double values, product_of(config, {kAttentionIn, "attention_out_multiplier"}));
  TRY_ASSIGN(const double in, product_of(config, {"ssm_in_multiplier"}));
  TRY_ASSIGN(auto parts, factors_of(config, "ssm_multipliers", 5));
  TRY_ASSIGN(const auto of_mlp, factors_of(config, "mlp_multipliers", 2));
  for (double& part : parts) part *= in;
  keys.real("attention.scale", scores / std::sqrt(head_dim));
  keys.real("attention.value_scale", values);
  keys.reals("ssm.in_scales", std::move(parts));
  keys.real("feed_forward.gate_scale", of_mlp[0]);
  keys.real("feed_forward.scale", of_mlp[1]);
  return {};
}

Result<void> read_falcon_h1(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const uint32_t n_heads, config.count("mamba_n_heads", kMaxHeads));
  const char* width_key = config.find("mamba_d_ssm") ? "mamba_d_ssm" : "hidden_size";
  TRY_ASSIGN(const uint32_t width, config.count(width_key, kMaxDim));
  TRY_ASSIGN(const uint32_t expand, config.count("mamba_expand", kMaxDim));
  const uint64_t inner = uint64_t{width} * (config.find("mamba_d_ssm") ? 1 : expand);
  if (inner % n_heads != 0 || inner / n_heads > kMaxHeadDim) {
    return config.unexpected_value("mamba_n_heads",
                                   fmt::format("a divisor of the {} channels", inner));
  }
  TRY(read_space(config, {"mamba_n_heads", "", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"},
                 static_cast<uint32_t>(inner / n_heads), keys));
  TRY_ASSIGN(const auto has_norm, config.flag("mamba_rms_norm"));
  if (has_norm.value_or(false)) TRY(expect_flag(config, "mamba_norm_before_gate", false));
  return read_factors(config, keys);
}

// Returns which layers a period and an offset of config.json select.
Result<std::vector<bool>> selected_layers(const JsonObject& config, const std::string& kind,
                                          uint32_t n_layers) {
  TRY_ASSIGN(const uint32_t period, config.count(kind + "_layer_period", kMaxLayers));
  TRY_ASSIGN(const auto offset, config.number(kind + "_layer_offset"));
  if (offset.value_or(0) >= period) {
    return config.unexpected_value(kind + "_layer_offset", fmt::format("less than {}", period));
  }
  std::vector<bool> selected;
  for (uint32_t i = 0; i < n_layers; ++i) selected.push_back(i % period == offset.value_or(0));
  return selected;
}

Result<void> read_jamba(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY_ASSIGN(const uint32_t model_dim, config.count("hidden_size", kMaxDim));
  TRY_ASSIGN(const uint32_t expand, config.count("mamba_expand", kMaxDim / model_dim));
  TRY_ASSIGN(const uint32_t state_dim, config.count("mamba_d_state", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t kernel_size, config.count("mamba_d_conv", kMaxDim));
  uint32_t rank = (model_dim + 15) / 16;
  if (*config.find("mamba_dt_rank") != "auto") {
    TRY_ASSIGN(rank, config.count("mamba_dt_rank", kMaxDim));
  }
  keys.number("ssm.conv_kernel", kernel_size);
  keys.number("ssm.state_size", state_dim);
  keys.number("ssm.time_step_rank", rank);
  keys.number("ssm.inner_size", uint64_t{model_dim} * expand);
  TRY_ASSIGN(const auto attends, selected_layers(config, "attn", n_layers));
  TRY(list_kv_heads(config, attends, keys));
  TRY_ASSIGN(const auto n_experts, config.number("num_experts"));
  if (n_experts.value_or(0) <= 1) {
    keys.number("expert_count", 0);
    return {};
  }
  TRY_ASSIGN(const uint32_t period, config.count("expert_layer_period", kMaxLayers));
  TRY_ASSIGN(const auto offset, config.number("expert_layer_offset"));
  keys.number("interleave_moe_layer_step", period);
  if (offset.value_or(0) + 1 == period) return {};
  return config.unexpected_value("expert_layer_offset", fmt::format("{}", period - 1),
                                 ErrorCode::kUnsupported);
}

// Returns a letter per layer: Mamba, attention, experts, MLP.
Result<std::string> nemotron_pattern(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const auto stated, config.text("hybrid_override_pattern"));
  if (stated) {
    const bool is_known = stated->find_first_not_of("M*E-") == std::string::npos;
    if (stated->size() == n_layers && is_known) return *stated;
    return config.unexpected_value("hybrid_override_pattern",
                                   fmt::format("M, *, E or - for each of {} layers", n_layers),
                                   ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto words, layer_words(config, "layers_block_type", n_layers,
                                           {"mamba", "attention", "moe", "mlp", kLinear, kFull}));
  std::string pattern;
  for (const std::string& word : words) {
    pattern += is_attention(word) ? '*' : word == "moe" ? 'E' : word == "mlp" ? '-' : 'M';
  }
  return pattern;
}

Result<void> read_nemotron(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  for (const char* bias : {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias"}) {
    TRY(expect_flag(config, bias, false));
  }
  TRY(expect_flag(config, "use_conv_bias", true));
  if (config.find("sliding_window")) {
    return config.unexpected_value("sliding_window", "null", ErrorCode::kUnsupported);
  }
  TRY(read_space(config,
                 {"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel"},
                 0, keys));
  TRY_ASSIGN(const std::string pattern, nemotron_pattern(config, n_layers));
  const bool has_experts = pattern.contains('E');
  if (has_experts && pattern.contains('-')) {
    return config.unexpected_value("hybrid_override_pattern", "either experts or MLPs, not both",
                                   ErrorCode::kUnsupported);
  }
  const char* width = has_experts ? "moe_intermediate_size" : "intermediate_size";
  TRY_ASSIGN(const uint32_t ffn_dim, config.count(width, kMaxDim));
  TRY_ASSIGN(auto ffn_dims, sizes_of_blocks(config, width));
  const bool is_listed = !ffn_dims.empty();
  std::vector<bool> attends;
  for (const char layer : pattern) {
    attends.push_back(layer == '*');
    if (!is_listed) ffn_dims.push_back(layer == 'E' || layer == '-' ? ffn_dim : 0);
  }
  attends.resize(ffn_dims.size(), true);  // an MTP layer that is listed, too
  TRY(list_kv_heads(config, attends, keys));
  keys.numbers("feed_forward_length", std::move(ffn_dims));
  if (!has_experts) {
    keys.number("expert_count", 0);
    return {};
  }
  for (const auto& [from, to] :
       {std::pair("n_routed_experts", "expert_count"),
        {"num_experts_per_tok", "expert_used_count"},
        {"moe_intermediate_size", "expert_feed_forward_length"},
        {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
        {"moe_latent_size", "moe_latent_size"}}) {
    TRY_ASSIGN(auto listed, sizes_of_blocks(config, from));
    if (!listed.empty()) keys.numbers(to, std::move(listed));
  }
  if (config.find("moe_latent_size")) {
    TRY_ASSIGN(const uint32_t latent_dim, config.count("moe_latent_size", kMaxDim));
    keys.number("moe_latent_size", latent_dim);
  }
  TRY_ASSIGN(const auto n_shared, config.number("n_shared_experts"));
  if (n_shared.value_or(0) == 0) return {};
  TRY_ASSIGN(const uint32_t shared_dim,
             config.count("moe_shared_expert_intermediate_size", kMaxDim));
  keys.number("expert_shared_feed_forward_length", shared_dim);
  return {};
}

}  // namespace

Result<void> read_recurrence(const JsonObject& config, const Family& family, GgufKeys& keys) {
  if (family.recurrence.kind == Recurrence::kNone) return {};
  TRY_ASSIGN(const uint32_t n_layers, config.count("num_hidden_layers", kMaxLayers));
  switch (family.recurrence.kind) {
    case Recurrence::kNone:
      return {};
    case Recurrence::kDelta:
      return read_delta(config, n_layers, keys);
    case Recurrence::kShortConv:
      return read_short_conv(config, family, n_layers, keys);
    case Recurrence::kKda:
      return read_kda(config, {family, n_layers}, keys);
    case Recurrence::kSelective:
      return read_jamba(config, n_layers, keys);
    case Recurrence::kStateSpace:
      break;
  }
  if (family.recurrence.is_beside_attention) return read_falcon_h1(config, keys);
  return family.has_single_block_layers ? read_nemotron(config, n_layers, keys)
                                        : read_granite(config, n_layers, keys);
}

}  // namespace kvik::hf
