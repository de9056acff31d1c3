#include "model/indexer/index_places.h"

#include "base/check.h"
#include "model/model.h"

namespace kvik {
namespace {

constexpr uint64_t kLineBytes = 64;

// Returns the group in whose pages the index keys of the layer lie.
uint32_t group_of(const ModelConfig& config, const LayerGroups& groups, uint32_t layer) {
  return config.layers[layer].has_entries() ? groups.entry_places[layer].place.group
                                            : groups.places[layer].group;
}

// Returns the end of the index keys of the group's layers before `end`.
uint64_t index_end(const ModelConfig& config, const LayerGroups& groups, uint32_t group,
                   uint32_t end, KvType type, const Backend& backend) {
  const uint64_t kv_bytes = backend.page_bytes(kv_geometry(groups, group, type));
  uint64_t at = (kv_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  bool has_index = false;
  for (uint32_t layer = 0; layer < end; ++layer) {
    const uint64_t n_bytes = index_page_bytes(config.layers[layer], type);
    if (n_bytes == 0 || group_of(config, groups, layer) != group) continue;
    has_index = true;
    at += n_bytes;
  }
  return has_index || end < config.layers.size() ? at : kv_bytes;
}

}  // namespace

uint64_t index_page_bytes(const LayerConfig& layer, KvType type) {
  const AttentionConfig* attention = layer.if_attention();
  if (!attention) return 0;
  if (const EntriesConfig& entries = attention->joint.entries; entries.selects()) {
    return kPageTokens / entries.n_tokens * index_key_bytes(type, entries.index_dim);
  }
  if (!attention->indexer.is_own()) return 0;
  const IndexerConfig& indexer = attention->indexer;
  return kPageTokens / indexer.key_tokens * index_key_bytes(type, indexer.head_dim);
}

uint64_t bytes_with_index(const ModelConfig& config, const LayerGroups& groups, uint32_t group,
                          KvType type, const Backend& backend) {
  return index_end(config, groups, group, static_cast<uint32_t>(config.layers.size()), type,
                   backend);
}

uint64_t index_offset(const ModelConfig& config, const LayerGroups& groups, uint32_t layer,
                      KvType type, const Backend& backend) {
  CHECK(index_page_bytes(config.layers[layer], type) > 0);
  return index_end(config, groups, group_of(config, groups, layer), layer, type, backend);
}

}  // namespace kvik
