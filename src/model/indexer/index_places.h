#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "catalogue/model_config.h"
#include "model/layer_groups.h"
#include "tensor/kv_type.h"

namespace kvik {

// Index keys lie in the pages of their layer's group, after K and V of all layers.

// Returns the bytes of a group's pages that K, V and index keys take.
uint64_t bytes_with_index(const ModelConfig& config, const LayerGroups& groups, uint32_t group,
                          KvType type, const Backend& backend);

// Returns the offset of the index keys of a layer that has its own indexer.
uint64_t index_offset(const ModelConfig& config, const LayerGroups& groups, uint32_t layer,
                      KvType type, const Backend& backend);

// Returns the bytes of the index keys of a page; 0 for a layer without an indexer of its own.
uint64_t index_page_bytes(const LayerConfig& layer, KvType type);

}  // namespace kvik
