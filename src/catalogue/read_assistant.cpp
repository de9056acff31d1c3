#include "catalogue/read_assistant.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "catalogue/key_reader.h"
#include "catalogue/kv_source.h"
#include "catalogue/limits.h"

namespace kvik {
namespace {

// Returns the last layer of the model with full attention or with a window.
std::optional<uint32_t> last_layer(const ModelConfig& c, bool is_windowed) {
  for (uint32_t i = c.n_layers; i > 0; --i) {
    const AttentionConfig* a = c.layers[i - 1].if_attention();
    if (a && (a->window > 0) == is_windowed) return i - 1;
  }
  return std::nullopt;
}

// Returns the attention of a layer of the assistant, which reads the K and V of the model's last
// layer with such a span.
Result<AttentionConfig> attention_over(const KeyReader& keys, const ModelConfig& c,
                                       bool is_windowed) {
  const auto last = last_layer(c, is_windowed);
  if (!last) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' has a layer {} a window, and the model has none",
                            keys.full("attention.sliding_window_pattern"),
                            is_windowed ? "with" : "without"));
  }
  AttentionConfig a = c.layers[*last].attention();
  const auto source = kv_source_of(c.layers[*last]);
  a.shared_kv = source ? *source : *last;
  TRY_ASSIGN(a.n_heads, keys.count("attention.head_count", kMaxHeads));
  const char* key = is_windowed ? "attention.key_length_swa" : "attention.key_length";
  TRY_ASSIGN(const uint32_t head_dim, keys.count(key, kMaxHeadDim));
  if (head_dim == a.head_dim && a.n_heads % a.n_kv_heads == 0) return a;
  return fail(ErrorCode::kUnsupported,
              fmt::format("the assistant has {} heads of {} dimensions ('{}'), expected a multiple "
                          "of the model's {} KV heads of {}",
                          a.n_heads, head_dim, keys.full(key), a.n_kv_heads, a.head_dim));
}

}  // namespace

bool has_assistant(const Metadata& metadata) {
  return metadata.contains(fmt::format("{}.block_count", kAssistantArchitecture));
}

Result<void> add_assistant(const Metadata& metadata, ModelConfig& c) {
  if (c.architecture != "gemma4") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("a Gemma 4 assistant drafts for Gemma 4, not for a model of "
                            "architecture '{}'",
                            c.architecture));
  }
  const KeyReader keys(metadata, kAssistantArchitecture);
  AssistantConfig assistant;
  TRY_ASSIGN(assistant.n_layers, keys.count("block_count", kMaxLayers));
  TRY_ASSIGN(assistant.model_dim, keys.count("embedding_length", kMaxDim));
  TRY_ASSIGN(const uint32_t target_dim, keys.count("embedding_length_out", kMaxDim));
  TRY_ASSIGN(const auto ffn_dims, keys.counts("feed_forward_length", assistant.n_layers, kMaxDim));
  TRY_ASSIGN(const auto windowed,
             keys.flags("attention.sliding_window_pattern", assistant.n_layers));
  if (target_dim != c.model_dim || windowed.size() != assistant.n_layers) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, with {} layers in '{}': expected the model's {} and {}",
                            keys.full("embedding_length_out"), target_dim, windowed.size(),
                            keys.full("attention.sliding_window_pattern"), c.model_dim,
                            assistant.n_layers));
  }
  std::vector<LayerConfig> layers;
  for (uint32_t i = 0; i < assistant.n_layers; ++i) {
    TRY_ASSIGN(const AttentionConfig attention, attention_over(keys, c, windowed[i]));
    layers.push_back({.mixer = attention, .feed_forward = MlpConfig{.ffn_dim = ffn_dims[i]}});
  }
  c.layers.insert(c.layers.end(), layers.begin(), layers.end());
  c.assistant = assistant;
  c.has_mtp_head = true;
  return {};
}

}  // namespace kvik
