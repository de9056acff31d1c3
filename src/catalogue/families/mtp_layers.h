#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik::families {

enum class Span : uint8_t { kAll, kWindow };

// Returns the attention of the first layer with full attention or with a window; if there is none,
// that of the first layer that attends.
inline AttentionConfig attention_with(const ModelConfig& config, Span span) {
  const auto found = std::ranges::find_if(config.layers, [&](const LayerConfig& layer) {
    return layer.if_attention() && (layer.attention().window > 0) == (span == Span::kWindow);
  });
  return found == config.layers.end() ? config.attention() : found->attention();
}

// Returns whether the MTP layer has a window: as a key of its own says, or the list of layers;
// `otherwise` without either.
inline Result<bool> mtp_is_windowed(const KeyReader& keys, const ModelConfig& config,
                                    bool otherwise) {
  constexpr std::string_view kLayers = "attention.sliding_window_pattern";
  if (keys.has("mtp.is_windowed")) return keys.flag("mtp.is_windowed", otherwise);
  if (!keys.is_list(kLayers)) return otherwise;
  TRY_ASSIGN(const auto windowed, keys.flags(kLayers, config.n_listed_layers()));
  return windowed[config.n_layers];
}

}  // namespace kvik::families
