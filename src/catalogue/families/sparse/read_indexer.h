#pragma once

#include <vector>

#include "base/result.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik::families {

// Reads the number of heads of an indexer, which is `usual` otherwise, and their dimensions.
Result<IndexerConfig> read_index_heads(const KeyReader& keys, const IndexerConfig& usual);
// Expects at least as many dimensions of index heads as RoPE rotates.
Result<void> check_index_rope(const KeyReader& keys, const IndexerConfig& indexer,
                              uint32_t n_rope_dims);

// Reads the sizes of the indexer, which is `usual` otherwise, into all layers.
Result<void> read_indexer(const KeyReader& keys, const IndexerConfig& usual, ModelConfig& c);

// Reads which layers have an indexer of their own; `usual` if the file does not state it. Layers
// without one share the selection of the layer before them.
Result<void> read_shared_indexers(const KeyReader& keys, std::vector<bool> usual, ModelConfig& c);

}  // namespace kvik::families
