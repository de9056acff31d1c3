#pragma once

#include <algorithm>
#include <cstdint>

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

}  // namespace kvik::families
