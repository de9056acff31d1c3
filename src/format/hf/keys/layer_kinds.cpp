#include "format/hf/keys/layer_kinds.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/family.h"
#include "catalogue/limits.h"

namespace kvik::hf {
namespace {

// Interval of the full-attention layers if config.json does not list them.
constexpr uint32_t kUsualStep = 6;

// Returns whether each layer has a sliding window. The last layer always has full attention, as in
// Transformers.
Result<std::vector<bool>> windowed_layers(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const std::vector<std::string> types, config.texts("layer_types"));
  if (!types.empty() && types.size() != n_layers) {
    return config.unexpected_value("layer_types",
                                   fmt::format("one for each of {} layers", n_layers));
  }
  std::vector<bool> is_windowed;
  for (uint32_t i = 0; i + 1 < n_layers; ++i) {
    is_windowed.push_back(types.empty() ? (i + 1) % kUsualStep != 0
                                        : types[i] == "sliding_attention");
    if (types.empty() || is_windowed[i] || types[i] == "full_attention") continue;
    return config.unexpected_value("layer_types", "sliding_attention or full_attention for each",
                                   ErrorCode::kUnsupported);
  }
  is_windowed.push_back(false);
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
  if (width.value_or(0) == 0 || !n_rows || n_rows == n_vocab) return {};
  return config.unexpected_value("vocab_size_per_layer_input",
                                 fmt::format("the {} of vocab_size", n_vocab.value_or(0)),
                                 ErrorCode::kUnsupported);
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

Result<uint32_t> read_layer_kinds(const JsonObject& config, GgufKeys& keys) {
  TRY_ASSIGN(const auto bidirectional, config.text("use_bidirectional_attention"));
  if (bidirectional == "all") {
    return config.unexpected_value("use_bidirectional_attention", "vision or none",
                                   ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const uint32_t n_layers, config.count("num_hidden_layers", kMaxLayers));
  TRY_ASSIGN(const uint32_t window_head_dim, config.count("head_dim", kMaxHeadDim));
  TRY_ASSIGN(std::vector<bool> is_windowed, windowed_layers(config, n_layers));
  TRY_ASSIGN(const auto overrides, config.object(kPerLayer));
  uint32_t head_dim = 0;
  if (overrides) {
    TRY_ASSIGN(head_dim, read_overrides(config, *overrides, is_windowed, keys));
  } else {
    TRY_ASSIGN(head_dim, config.count("global_head_dim", kMaxHeadDim));
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
  return head_dim;
}

}  // namespace kvik::hf
