#pragma once

#include <cstdint>
#include <optional>

#include "catalogue/model_config.h"

namespace kvik {

// Returns the earlier layer that provides the K and V of this layer (KV sharing); std::nullopt if
// the layer has K and V of its own or no attention.
inline std::optional<uint32_t> kv_source_of(const LayerConfig& layer) {
  const auto* attention = std::get_if<AttentionConfig>(&layer.mixer);
  return attention ? attention->shared_kv : std::nullopt;
}

// Returns whether the rows of the layer write to pages: K and V, index keys, or a recurrent state.
inline bool writes_cache(const LayerConfig& layer) {
  if (!layer.mixes()) return false;
  return !kv_source_of(layer) || layer.attention().indexer.is_own();
}

}  // namespace kvik
