#include "format/hf/keys/kda_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/limits.h"
#include "format/hf/keys/glm5_next_keys.h"
#include "format/hf/keys/kda_sizes.h"
#include "format/hf/keys/layer_words.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

// Adds the layers with attention to the keys. MTP layers have attention; the number of KV heads is
// that of MLA.
void list_attention(std::vector<bool> attends, uint64_t n_mtp_layers, GgufKeys& keys) {
  attends.resize(attends.size() + n_mtp_layers, true);
  keys.numbers("attention.head_count_kv", {attends.begin(), attends.end()});
}

Result<uint64_t> read_n_mtp_layers(const JsonObject& config) {
  TRY_ASSIGN(const auto n, config.number("num_nextn_predict_layers"));
  return std::min<uint64_t>(n.value_or(0), kMaxLayers);
}

// Kimi Linear. Its first folders list the layers in an object of their own, counted from 1.
Result<void> read_kimi(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY_ASSIGN(const auto own, config.object("linear_attn_config"));
  const JsonObject& of = own ? *own : config;
  const char* heads_key = own ? "num_heads" : "linear_num_heads";
  TRY_ASSIGN(const uint32_t n_heads, of.count(heads_key, kMaxHeads));
  TRY_ASSIGN(const uint32_t n_attention_heads, config.count("num_attention_heads", kMaxHeads));
  if (n_heads != n_attention_heads) {
    return of.unexpected_value(heads_key, fmt::format("the {} of attention", n_attention_heads),
                               ErrorCode::kUnsupported);
  }
  TRY(read_kda_sizes({of, own ? "head_dim" : "linear_head_dim"},
                     {of, own ? "short_conv_kernel_size" : "linear_conv_kernel_dim"}, n_heads,
                     keys));
  std::vector<bool> attends(n_layers, false);
  if (own) {
    TRY_ASSIGN(const auto listed, own->numbers("full_attn_layers"));
    for (const uint64_t layer : listed) {
      if (layer == 0 || layer > n_layers) {
        return own->unexpected_value("full_attn_layers", fmt::format("1 to {}", n_layers));
      }
      attends[layer - 1] = true;
    }
  } else {
    TRY_ASSIGN(const auto words, layer_words(config, "layer_types", n_layers, {kLinear, kFull}));
    for (uint32_t i = 0; i < n_layers; ++i) attends[i] = words[i] == kFull;
  }
  TRY_ASSIGN(const uint64_t n_mtp_layers, read_n_mtp_layers(config));
  list_attention(std::move(attends), n_mtp_layers, keys);
  return {};
}

// Numbers of layers with a limit: those of the model, and with MTP layers.
struct LimitedLayers {
  uint64_t n, n_all;
};

// Reads a limit for each layer, null or 0 for none. A folder may also list MTP layers, or more.
Result<void> add_limits(const JsonObject& config, std::string_view from, std::string_view to,
                        const LimitedLayers& layers, GgufKeys& keys) {
  const json::value* value = config.find(from);
  if (!value || value->is_null()) return {};
  const json::array* list = value->if_array();
  if (!list || list->size() < layers.n) {
    return config.unexpected_value(from, fmt::format("a number for each of {} layers", layers.n));
  }
  std::vector<double> limits(layers.n_all, 0.0);
  for (size_t i = 0; i < std::min<size_t>(layers.n_all, list->size()); ++i) {
    const json::value& limit = (*list)[i];
    if (limit.is_null()) continue;
    const double number = limit.is_number() ? limit.to_number<double>() : -1;
    if (!(number >= 0 && number <= std::numeric_limits<float>::max())) {
      return config.unexpected_value(
          from, fmt::format("a number of at least 0 for each layer, at most {:.2g}",
                            std::numeric_limits<float>::max()));
    }
    limits[i] = number;
  }
  keys.reals(to, std::move(limits));
  return {};
}

// Ling 3.0. Folders of Ling 2.5 have the same model type, but another kind of linear attention.
Result<void> read_bailing(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  constexpr const char* kArchitectures = "architectures";
  constexpr const char* kGroup = "layer_group_size";
  constexpr const char* kSafeGate = "kda_safe_gate";
  constexpr std::string_view kOther = "BailingMoeV2_5ForCausalLM";
  TRY_ASSIGN(const auto architectures, config.texts(kArchitectures));
  if (std::ranges::count(architectures, kOther) > 0) {
    return config.unexpected_value(kArchitectures, "BailingMoeV3ForCausalLM",
                                   ErrorCode::kUnsupported);
  }
  // Folders that Transformers writes state the head size of MLA's RoPE as "head_dim".
  const char* head_key = config.find("linear_head_dim") ? "linear_head_dim" : "head_dim";
  TRY_ASSIGN(const uint32_t n_heads, config.count("num_attention_heads", kMaxHeads));
  TRY(read_kda_sizes({config, head_key}, {config, "short_conv_kernel_size"}, n_heads, keys));
  if (const json::value* gate = config.find(kSafeGate);
      gate && gate->is_number() && gate->to_number<double>() > 1) {
    return config.unexpected_value(kSafeGate, "true", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto bound, config.real("kda_lower_bound"));
  if (!bound || !(*bound < 0)) return config.unexpected_value("kda_lower_bound", "a number < 0");
  std::vector<bool> attends;
  if (config.find("layer_types")) {
    TRY_ASSIGN(const auto words, layer_words(config, "layer_types", n_layers, {kLinear, kFull}));
    for (const std::string& word : words) attends.push_back(word == kFull);
  } else {
    TRY_ASSIGN(const uint32_t group, config.count(kGroup, kMaxLayers));
    // Implementations differ in what the layers after the last whole group are.
    if (n_layers % group != 0) {
      return config.unexpected_value(kGroup, fmt::format("a divisor of the {} layers", n_layers),
                                     ErrorCode::kUnsupported);
    }
    for (uint32_t i = 0; i < n_layers; ++i) attends.push_back((i + 1) % group == 0);
  }
  TRY_ASSIGN(const uint64_t n_mtp_layers, read_n_mtp_layers(config));
  list_attention(std::move(attends), n_mtp_layers, keys);
  keys.flag("kda.safe_gate", true);
  keys.real("kda.gate_lower_bound", *bound);
  const LimitedLayers limited{n_layers, n_layers + n_mtp_layers};
  TRY(add_limits(config, "expert_swiglu_limit_list", "swiglu_clamp_exp", limited, keys));
  return add_limits(config, "share_expert_swiglu_limit_list", "swiglu_clamp_shexp", limited, keys);
}

}  // namespace

Result<void> read_kda(const JsonObject& config, const KdaFamily& of, GgufKeys& keys) {
  if (of.family.recurrence.is_kda_bound_optional) return read_glm5_next(config, of.n_layers, keys);
  return of.family.recurrence.is_kda_bounded ? read_bailing(config, of.n_layers, keys)
                                             : read_kimi(config, of.n_layers, keys);
}

}  // namespace kvik::hf
