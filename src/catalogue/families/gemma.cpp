#include "catalogue/families/gemma.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "catalogue/key_reader.h"
#include "catalogue/limits.h"

namespace kvik::families {
namespace {

constexpr uint64_t kMaxStreams = 8;
constexpr float kMaxCutoff = 100;        // in deviations
constexpr double kUsualGemma3nCap = 30;  // llama.cpp's files of Gemma 3n do not state the soft cap

AttentionConfig& attention_of(LayerConfig& layer) { return std::get<AttentionConfig>(layer.mixer); }

// Scales q·k by 1 / sqrt(model_dim / n_heads) instead of 1 / sqrt(head_dim), as the largest model
// of a family does.
Result<void> scale_by_share(const KeyReader& keys, uint32_t n_layers_of_largest, ModelConfig& c) {
  if (c.n_layers != n_layers_of_largest) return {};
  for (LayerConfig& layer : c.layers) {
    AttentionConfig& a = attention_of(layer);
    const double share = static_cast<double>(c.model_dim) / a.n_heads;
    TRY_ASSIGN(a.scale, keys.real("attention.scale", 1.0 / std::sqrt(share)));
  }
  return {};
}

// Layers of Gemma 4 differ: sliding-window layers have another head_dim and RoPE of their own,
// layers have different numbers of KV heads and MLP sizes, and the last layers share the K and V of
// the last earlier layer with the same attention span (KV sharing).
struct LayerKinds {
  std::vector<bool> is_windowed;
  std::vector<uint32_t> n_kv_heads;
  std::vector<uint32_t> ffn_dims;
  std::vector<std::optional<uint32_t>> kv_sources;  // layer that computes the K and V
  uint32_t window_head_dim = 0;
};

// Returns the RoPE of sliding-window layers, made from that of the other layers.
Result<RopeConfig> read_window_rope(const KeyReader& keys, RopeConfig rope, uint32_t head_dim) {
  rope.has_divisors = false;
  TRY_ASSIGN(rope.base, keys.positive("rope.freq_base_swa", kLocalRopeBase));
  TRY_ASSIGN(rope.n_dims, keys.count("rope.dimension_count_swa", head_dim, head_dim));
  if (rope.n_dims % 2 == 0) return rope;
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected an even number",
                                               keys.full("rope.dimension_count_swa"), rope.n_dims));
}

Result<void> read_heads(const KeyReader& keys, const ModelConfig& c, LayerKinds& kinds) {
  TRY_ASSIGN(const auto pattern,
             keys.flags("attention.sliding_window_pattern", c.n_listed_layers()));
  TRY_ASSIGN(const uint32_t window, keys.optional_count("attention.sliding_window", kMaxContext));
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    const bool is_windowed = pattern.empty() ? c.layers[i].attention().window > 0 : pattern[i];
    kinds.is_windowed.push_back(window > 0 && is_windowed);
  }
  TRY_ASSIGN(kinds.n_kv_heads,
             keys.counts("attention.head_count_kv", c.n_listed_layers(), kMaxHeads));
  TRY_ASSIGN(const uint32_t head_dim, keys.count("attention.key_length", kMaxHeadDim));
  TRY_ASSIGN(kinds.window_head_dim, keys.count("attention.key_length_swa", kMaxHeadDim, head_dim));
  TRY_ASSIGN(const uint32_t value_dim,
             keys.count("attention.value_length_swa", kMaxHeadDim, kinds.window_head_dim));
  if (value_dim == kinds.window_head_dim) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("'{}' is {}, expected the key length {}",
                                                   keys.full("attention.value_length_swa"),
                                                   value_dim, kinds.window_head_dim));
}

// Checks that there are not too many kinds of layers, because each kind has pages of its own.
Result<void> check_number_of_kinds(const KeyReader& keys, const LayerKinds& kinds) {
  std::set<std::pair<bool, uint32_t>> seen;
  for (size_t i = 0; i < kinds.is_windowed.size(); ++i) {
    seen.emplace(kinds.is_windowed[i], kinds.n_kv_heads[i]);
  }
  if (seen.size() <= kMaxLayerKinds) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' makes layers of {} kinds, expected at most {}",
                          keys.full("attention.head_count_kv"), seen.size(), kMaxLayerKinds));
}

Result<void> find_kv_sources(const KeyReader& keys, LayerKinds& kinds) {
  const auto n_layers = static_cast<uint32_t>(kinds.is_windowed.size());
  TRY_ASSIGN(const uint32_t n_sharing,
             keys.optional_count("attention.shared_kv_layers", n_layers - 1));
  kinds.kv_sources.resize(n_layers);
  for (uint32_t i = n_layers - n_sharing; i < n_layers; ++i) {
    std::optional<uint32_t>& source = kinds.kv_sources[i];
    for (uint32_t j = 0; j < n_layers - n_sharing; ++j) {
      if (kinds.is_windowed[j] == kinds.is_windowed[i]) source = j;
    }
    if (source && kinds.n_kv_heads[*source] == kinds.n_kv_heads[i]) continue;
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("'{}' is {}: no earlier layer has K and V for layer {}, expected "
                    "one with the same window and {} KV heads",
                    keys.full("attention.shared_kv_layers"), n_sharing, i, kinds.n_kv_heads[i]));
  }
  return {};
}

// Gives the layers what Gemma 3n and Gemma 4 have in common.
Result<void> read_layer_kinds(const KeyReader& keys, ModelConfig& config, LayerKinds& kinds) {
  TRY(read_heads(keys, config, kinds));
  TRY_ASSIGN(const RopeConfig rope,
             read_window_rope(keys, config.ropes.front(), kinds.window_head_dim));
  config.ropes.push_back(rope);
  TRY(check_number_of_kinds(keys, kinds));
  TRY_ASSIGN(kinds.ffn_dims, keys.counts("feed_forward_length", config.n_listed_layers(), kMaxDim));
  TRY(find_kv_sources(keys, kinds));
  TRY_ASSIGN(const uint32_t window, keys.optional_count("attention.sliding_window", kMaxContext));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    LayerConfig& layer = config.layers[i];
    AttentionConfig& a = attention_of(layer);
    a.n_kv_heads = kinds.n_kv_heads[i];
    a.shared_kv = kinds.kv_sources[i];
    a.has_v_norm = true;
    a.window = 0;
    if (kinds.is_windowed[i]) {
      a.window = window;
      a.rope = 1;
      a.head_dim = kinds.window_head_dim;
    }
    if (auto* experts = std::get_if<ExpertsConfig>(&layer.feed_forward)) {
      experts->parallel_ffn_dim = kinds.ffn_dims[i];
    } else {
      std::get<MlpConfig>(layer.feed_forward).ffn_dim = kinds.ffn_dims[i];
    }
  }
  TRY_ASSIGN(config.per_layer_dim,
             keys.optional_count("embedding_length_per_layer_input", kMaxHeadDim));
  return {};
}

// Reads the number of residual streams. llama.cpp's files do not state the rank of LAuReL.
Result<StreamsConfig> read_streams(const KeyReader& keys) {
  StreamsConfig streams;
  TRY_ASSIGN(streams.n, keys.count("altup.num_inputs", kMaxStreams, 4));
  TRY_ASSIGN(streams.laurel_rank, keys.count("laurel.rank", kMaxDim, 64));
  TRY_ASSIGN(const uint32_t active, keys.optional_count("altup.active_idx", kMaxStreams));
  if (streams.n < 2) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected 2 to {}", keys.full("altup.num_inputs"),
                            streams.n, kMaxStreams));
  }
  if (active == 0) return streams;
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' is {}, expected 0", keys.full("altup.active_idx"), active));
}

}  // namespace

Result<void> finish_gemma2(const KeyReader& keys, ModelConfig& config) {
  return scale_by_share(keys, 46, config);
}

// Gives the sliding-window layers a RoPE base of their own.
Result<void> finish_gemma3(const KeyReader& keys, ModelConfig& config) {
  TRY(scale_by_share(keys, 62, config));
  RopeConfig rope = config.ropes.front();
  rope.base = kLocalRopeBase;
  rope.position_scale = 1.0f;
  config.ropes.push_back(rope);
  for (LayerConfig& layer : config.layers) {
    if (AttentionConfig& a = attention_of(layer); a.window > 0) a.rope = 1;
  }
  return {};
}

// The window of an encoder is as wide on both sides of a token.
Result<void> finish_gemma_embedding(const KeyReader& keys, ModelConfig& config) {
  TRY(finish_gemma3(keys, config));
  for (LayerConfig& layer : config.layers) {
    if (AttentionConfig& a = attention_of(layer); a.window > 0) a.window |= 1;
  }
  return {};
}

Result<void> finish_gemma3n(const KeyReader& keys, ModelConfig& config) {
  LayerKinds kinds;
  TRY(read_layer_kinds(keys, config, kinds));
  TRY_ASSIGN(config.streams, read_streams(keys));
  if (config.per_layer_dim == 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is 0, expected a number > 0",
                            keys.full("embedding_length_per_layer_input")));
  }
  TRY_ASSIGN(config.n_per_layer_vocab,
             keys.count("vocab_size_per_layer_input", kMaxVocabulary, config.n_vocab));
  TRY_ASSIGN(config.logit_soft_cap, keys.real("final_logit_softcapping", kUsualGemma3nCap));
  TRY_ASSIGN(const auto cutoffs, keys.extended_reals("activation_sparsity_scale", config.n_layers));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (std::isfinite(cutoffs[i]) && std::abs(cutoffs[i]) > kMaxCutoff) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("'{}' holds {}, expected numbers from {} to {} or -inf",
                      keys.full("activation_sparsity_scale"), cutoffs[i], -kMaxCutoff, kMaxCutoff));
    }
    std::get<MlpConfig>(config.layers[i].feed_forward).activation.cutoff = cutoffs[i];
  }
  return {};
}

Result<void> finish_gemma4(const KeyReader& keys, ModelConfig& config) {
  LayerKinds kinds;
  TRY(read_layer_kinds(keys, config, kinds));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    attention_of(config.layers[i]).is_v_optional = !kinds.is_windowed[i];
  }
  config.has_layer_scales = true;
  return {};
}

}  // namespace kvik::families
