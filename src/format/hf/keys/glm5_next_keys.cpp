#include "format/hf/keys/glm5_next_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/limits.h"
#include "format/hf/keys/kda_sizes.h"
#include "format/hf/keys/layer_words.h"

namespace kvik::hf {
namespace {

constexpr const char* kBound = "linear_lower_bound";
constexpr const char* kPartBound = "gate_lower_bound";
constexpr double kUsualBound = -5.0;

// Returns the lower bound of the decays; std::nullopt for null, which is none.
Result<std::optional<double>> bound_of(const StatedKey& key, bool is_safe) {
  TRY_ASSIGN(const auto bound, key.of.real(key.name));
  if (!bound) return is_safe ? std::optional<double>(kUsualBound) : std::nullopt;
  if (*bound < 0) return bound;
  return key.of.unexpected_value(key.name, "a number < 0 or null");
}

// The published folders have the sizes of KDA in "linear_attn_config", those that Transformers
// writes under keys of their own.
Result<void> read_sizes(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const auto part, config.object("linear_attn_config"));
  const auto key = [&](const char* in_part, const char* otherwise) -> StatedKey {
    if (part && part->all().if_contains(in_part)) return {*part, in_part};
    return {config, otherwise};
  };
  const StatedKey heads = key("num_heads", "linear_num_heads");
  TRY_ASSIGN(const uint32_t n_heads, heads.of.count(heads.name, kMaxHeads));
  TRY_ASSIGN(const uint32_t n_attention_heads, config.count("num_attention_heads", kMaxHeads));
  if (n_heads != n_attention_heads) {
    return heads.of.unexpected_value(
        heads.name, fmt::format("the {} of attention", n_attention_heads), ErrorCode::kUnsupported);
  }
  TRY(read_kda_sizes(key("head_dim", "linear_head_dim"),
                     key("short_conv_kernel_size", "linear_conv_kernel_dim"), n_heads, keys));
  bool is_safe = false;
  if (part) {
    TRY_ASSIGN(const auto stated, part->flag("safe_gate"));
    is_safe = stated.value_or(true);
  }
  TRY_ASSIGN(const auto bound, bound_of(key(kPartBound, kBound), is_safe));
  if (bound) keys.real("kda.gate_lower_bound", *bound);
  return {};
}

// Without a list, every fourth layer attends.
Result<std::vector<uint64_t>> kv_heads_of_layers(const JsonObject& config, uint32_t n_layers) {
  constexpr const char* kTypes = "layer_types";
  std::vector<uint64_t> n_kv_heads;
  if (!config.find(kTypes)) {
    for (uint32_t i = 0; i < n_layers; ++i) n_kv_heads.push_back(i % 4 == 3 ? 1 : 0);
    return n_kv_heads;
  }
  // The second is the published folders' word, the third that of Transformers.
  TRY_ASSIGN(const auto words,
             layer_words(config, kTypes, n_layers,
                         {kLinear, "deepseek_sparse_attention", "indexed_attention", kFull}));
  for (const std::string& word : words) n_kv_heads.push_back(word == kLinear ? 0 : 1);
  const auto n_attending = std::ranges::count(n_kv_heads, 1u);
  if (n_attending > 0 && n_attending < std::ssize(n_kv_heads)) return n_kv_heads;
  return config.unexpected_value(kTypes, "layers of both kinds", ErrorCode::kUnsupported);
}

}  // namespace

Result<void> read_glm5_next(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY(read_sizes(config, keys));
  TRY_ASSIGN(const auto n_stated, config.number("num_nextn_predict_layers"));
  const uint64_t n_mtp_layers = std::min<uint64_t>(n_stated.value_or(0), kMaxLayers);
  TRY_ASSIGN(std::vector<uint64_t> n_kv_heads, kv_heads_of_layers(config, n_layers));
  n_kv_heads.resize(n_layers + n_mtp_layers, 1);
  keys.numbers("attention.head_count_kv", n_kv_heads);
  TRY_ASSIGN(const auto limit, config.real("swiglu_limit"));
  if (!limit) return {};
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!(*limit >= 0 && *limit <= kMost)) {
    return config.unexpected_value("swiglu_limit", fmt::format("a number from 0 to {:.2g}", kMost));
  }
  const std::vector<double> limits(n_layers + n_mtp_layers, *limit);
  keys.reals("swiglu_clamp_exp", limits);
  keys.reals("swiglu_clamp_shexp", limits);
  return {};
}

}  // namespace kvik::hf
