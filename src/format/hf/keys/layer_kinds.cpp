#include "format/hf/keys/layer_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/family.h"
#include "catalogue/limits.h"

namespace kvik::hf {
namespace {

// Returns whether each layer has a sliding window.
Result<std::vector<bool>> windowed_layers(const JsonObject& config, const FamilyFolder& of,
                                          uint32_t n_layers) {
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  if (!types.empty() && types.size() != n_layers) {
    return config.unexpected_value("layer_types",
                                   fmt::format("one for each of {} layers", n_layers));
  }
  std::vector<bool> is_windowed;
  for (uint32_t i = 0; i < n_layers; ++i) {
    is_windowed.push_back(types.empty() ? of.family->attention.is_windowed(i)
                                        : types[i] == "sliding_attention");
    if (types.empty() || is_windowed[i] || types[i] == "full_attention") continue;
    return config.unexpected_value("layer_types", "sliding_attention or full_attention for each",
                                   ErrorCode::kUnsupported);
  }
  if (of.type->ends_with_global_layer) is_windowed.back() = false;
  return is_windowed;
}

// Attention sizes of a layer.
struct LayerSizes {
  uint32_t head_dim = 0;
  uint32_t n_kv_heads = 0;
};

constexpr const char* kPerLayer = "per_layer_config";

// Reads {"5": {"head_dim": 512}}, which Transformers since 5.20 writes instead of "global_head_dim"
// and "num_global_key_value_heads": values of a layer override those of the model.
Result<std::vector<LayerSizes>> read_layer_sizes(const JsonObject& config,
                                                 const JsonObject& overrides, uint32_t n_layers) {
  LayerSizes usual;
  TRY_ASSIGN(usual.head_dim, config.count("head_dim", kMaxHeadDim));
  TRY_ASSIGN(usual.n_kv_heads, config.count("num_key_value_heads", kMaxHeads));
  std::vector<LayerSizes> sizes(n_layers, usual);
  for (const auto& member : overrides.all()) {
    const std::string_view name(member.key().data(), member.key().size());
    uint32_t layer = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
    if (error != std::errc() || end != name.data() + name.size() || layer >= n_layers) {
      return config.unexpected_value(kPerLayer, fmt::format("layers below {}", n_layers));
    }
    TRY_ASSIGN(const auto own, overrides.object(name));
    for (const auto& setting : own ? own->all() : boost::json::object()) {
      if (setting.key() == "head_dim" || setting.key() == "num_key_value_heads") continue;
      return config.unexpected_value(kPerLayer, "head_dim and num_key_value_heads of layers",
                                     ErrorCode::kUnsupported);
    }
    if (own && own->find("head_dim")) {
      TRY_ASSIGN(sizes[layer].head_dim, own->count("head_dim", kMaxHeadDim));
    }
    if (own && own->find("num_key_value_heads")) {
      TRY_ASSIGN(sizes[layer].n_kv_heads, own->count("num_key_value_heads", kMaxHeads));
    }
  }
  return sizes;
}

// Adds the KV heads of each layer to `keys`, and returns head_dim of the full-attention layers.
Result<uint32_t> read_overrides(const JsonObject& config, const JsonObject& overrides,
                                const std::vector<bool>& is_windowed, GgufKeys& keys) {
  TRY_ASSIGN(const auto sizes,
             read_layer_sizes(config, overrides, static_cast<uint32_t>(is_windowed.size())));
  TRY_ASSIGN(const uint32_t of_windowed, config.count("head_dim", kMaxHeadDim));
  std::vector<uint64_t> n_kv_heads;
  for (size_t i = 0; i < sizes.size(); ++i) {
    n_kv_heads.push_back(sizes[i].n_kv_heads);
    const uint32_t expected = is_windowed[i] ? of_windowed : sizes.back().head_dim;
    if (sizes[i].head_dim == expected) continue;
    return config.unexpected_value(
        kPerLayer, "one head_dim for all layers with a window, and one for the others",
        ErrorCode::kUnsupported);
  }
  keys.numbers("attention.head_count_kv", std::move(n_kv_heads));
  return sizes.back().head_dim;
}

Result<void> read_kv_heads(const JsonObject& config, const std::vector<bool>& is_windowed,
                           GgufKeys& keys) {
  TRY_ASSIGN(const auto is_k_v, config.flag("attention_k_eq_v"));
  if (!is_k_v.value_or(false) || !config.find("num_global_key_value_heads")) return {};
  TRY_ASSIGN(const uint32_t of_windowed, config.count("num_key_value_heads", kMaxHeads));
  TRY_ASSIGN(const uint32_t of_global, config.count("num_global_key_value_heads", kMaxHeads));
  std::vector<uint64_t> n_heads;
  for (const bool windowed : is_windowed) n_heads.push_back(windowed ? of_windowed : of_global);
  keys.numbers("attention.head_count_kv", std::move(n_heads));
  return {};
}

Result<void> read_sharing(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY_ASSIGN(const auto stated, config.number("num_kv_shared_layers"));
  const uint64_t n_sharing = stated.value_or(0);
  if (n_sharing >= n_layers) {
    return config.unexpected_value("num_kv_shared_layers",
                                   fmt::format("less than the {} layers", n_layers));
  }
  keys.number("attention.shared_kv_layers", n_sharing);
  TRY_ASSIGN(const auto is_wide, config.flag("use_double_wide_mlp"));
  if (!is_wide.value_or(false)) return {};
  TRY_ASSIGN(const uint32_t ffn_dim, config.count("intermediate_size", kMaxDim / 2));
  std::vector<uint64_t> ffn_dims;
  for (uint64_t i = 0; i < n_layers; ++i) {
    ffn_dims.push_back(i + n_sharing < n_layers ? ffn_dim : uint64_t{2} * ffn_dim);
  }
  keys.numbers("feed_forward_length", std::move(ffn_dims));
  return {};
}

Result<void> read_per_layer(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const auto width, config.number("hidden_size_per_layer_input"));
  if (width.value_or(0) > kMaxHeadDim) {
    return config.unexpected_value("hidden_size_per_layer_input",
                                   fmt::format("at most {}", kMaxHeadDim));
  }
  keys.number("embedding_length_per_layer_input", width.value_or(0));
  TRY_ASSIGN(const auto n_rows, config.number("vocab_size_per_layer_input"));
  TRY_ASSIGN(const auto n_vocab, config.number("vocab_size"));
  const bool may_differ = config.find("altup_num_inputs") != nullptr;  // Gemma 3n
  if (width.value_or(0) == 0 || !n_rows || n_rows == n_vocab || may_differ) return {};
  return config.unexpected_value("vocab_size_per_layer_input",
                                 fmt::format("the {} of vocab_size", n_vocab.value_or(0)),
                                 ErrorCode::kUnsupported);
}

// Returns the x below which a normally distributed number is with probability p < 1: minus infinity
// for p = 0.
double normal_quantile(double p) {
  if (p <= 0) return -std::numeric_limits<double>::infinity();
  double low = -9, high = 9;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return high;
}

// Reads the shares of the gate that become zero (Gemma 3n); GGUF files have the quantiles of the
// normal distribution.
Result<void> read_cutoffs(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  constexpr uint32_t kUsuallySparse = 10;
  constexpr double kUsualShare = 0.95;
  TRY_ASSIGN(auto shares, config.reals("activation_sparsity_pattern"));
  if (shares.empty()) {
    shares.resize(n_layers);
    if (n_layers > kUsuallySparse) std::fill_n(shares.begin(), kUsuallySparse, kUsualShare);
  }
  const auto is_share = [](double share) { return share >= 0 && share < 1; };
  if (shares.size() != n_layers || !std::ranges::all_of(shares, is_share)) {
    return config.unexpected_value(
        "activation_sparsity_pattern",
        fmt::format("numbers from 0 to below 1 for {} layers", n_layers));
  }
  for (double& share : shares) share = normal_quantile(share);
  keys.reals("activation_sparsity_scale", std::move(shares));
  return {};
}

// Reads the RoPE base of sliding-window layers.
Result<void> read_local_base(const JsonObject& config, GgufKeys& keys) {
  double base = kLocalRopeBase;
  TRY_ASSIGN(const auto parameters, config.object("rope_parameters"));
  if (parameters) {
    TRY_ASSIGN(const auto local, parameters->object("sliding_attention"));
    if (local) {
      TRY_ASSIGN(const auto type, local->text("rope_type"));
      if (type.value_or("default") != "default") {
        return local->unexpected_value("rope_type", "default", ErrorCode::kUnsupported);
      }
      TRY_ASSIGN(const auto stated, local->real("rope_theta"));
      base = stated.value_or(base);
    }
  }
  keys.real("rope.freq_base_swa", base);
  return {};
}

}  // namespace

Result<uint32_t> read_layer_kinds(const JsonObject& config, const FamilyFolder& of,
                                  GgufKeys& keys) {
  TRY_ASSIGN(const auto bidirectional, config.text("use_bidirectional_attention"));
  if (bidirectional == "all") {
    return config.unexpected_value("use_bidirectional_attention", "vision or none",
                                   ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const uint32_t n_layers, config.count("num_hidden_layers", kMaxLayers));
  TRY_ASSIGN(const uint32_t window_head_dim, config.count("head_dim", kMaxHeadDim));
  TRY_ASSIGN(std::vector<bool> is_windowed, windowed_layers(config, of, n_layers));
  TRY_ASSIGN(const auto overrides, config.object(kPerLayer));
  uint32_t head_dim = 0;
  if (overrides) {
    TRY_ASSIGN(head_dim, read_overrides(config, *overrides, is_windowed, keys));
  } else {
    const bool has_own = config.find("global_head_dim") != nullptr;
    TRY_ASSIGN(head_dim, config.count(has_own ? "global_head_dim" : "head_dim", kMaxHeadDim));
    TRY(read_kv_heads(config, is_windowed, keys));
  }
  keys.flags("attention.sliding_window_pattern", std::move(is_windowed));
  keys.number("attention.key_length", head_dim);
  keys.number("attention.value_length", head_dim);
  keys.number("attention.key_length_swa", window_head_dim);
  keys.number("attention.value_length_swa", window_head_dim);
  keys.number("rope.dimension_count_swa", window_head_dim);
  TRY(read_local_base(config, keys));
  TRY(read_sharing(config, n_layers, keys));
  TRY(read_per_layer(config, keys));
  if (config.find("altup_num_inputs")) TRY(read_cutoffs(config, n_layers, keys));
  return head_dim;
}

}  // namespace kvik::hf
