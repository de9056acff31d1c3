#pragma once

#include <cstdint>
#include <optional>

#include "catalogue/model_config.h"

namespace kvik {

// Returns the layer whose K and V this layer shares instead of having its own (KV sharing), if any.
inline std::optional<uint32_t> lender_of(const LayerConfig& layer) {
  const auto* attention = std::get_if<AttentionConfig>(&layer.mixer);
  return attention ? attention->shared_kv : std::nullopt;
}

}  // namespace kvik
