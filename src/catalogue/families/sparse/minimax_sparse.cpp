#include "catalogue/families/sparse/minimax_sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "catalogue/families/sparse/read_indexer.h"
#include "catalogue/key_reader.h"
#include "catalogue/limits.h"

namespace kvik::families {
namespace {

constexpr std::string_view kLayers = "attention.indexer.types";
constexpr std::string_view kCount = "attention.indexer.head_count";
constexpr std::string_view kTopBlocks = "attention.indexer.top_k";
constexpr std::string_view kBlockSize = "attention.indexer.block_size";
constexpr std::string_view kLocalBlocks = "attention.indexer.local_blocks";

Result<IndexerConfig> read_block_indexer(const KeyReader& keys) {
  TRY_ASSIGN(IndexerConfig indexer, read_index_heads(keys, {.pairing = RopePairing::kHalves}));
  TRY_ASSIGN(indexer.block_tokens, keys.count(kBlockSize, kMaxContext));
  TRY_ASSIGN(indexer.n_top, keys.count(kTopBlocks, kMaxContext / indexer.block_tokens));
  TRY_ASSIGN(indexer.n_local, keys.optional_count(kLocalBlocks, indexer.n_top));
  return indexer;
}

Result<void> check_layer(const KeyReader& keys, const ModelConfig& config,
                         const AttentionConfig& a) {
  if (a.indexer.n_heads != a.n_kv_heads) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected one head for each of the {} KV heads",
                            keys.full(kCount), a.indexer.n_heads, a.n_kv_heads));
  }
  return check_index_rope(keys, a.indexer, config.ropes[a.rope].n_dims);
}

}  // namespace

Result<void> finish_minimax_m3(const KeyReader& keys, ModelConfig& config) {
  std::vector<bool> selects;
  if (keys.is_list(kLayers)) {
    const size_t n = config.n_layers;
    TRY_ASSIGN(selects, keys.flags(kLayers, n));
  } else {
    for (const LayerConfig& layer : config.layers) {
      selects.push_back(layer.experts() != nullptr);
    }
  }
  if (std::ranges::count(selects, true) == 0) return {};
  TRY_ASSIGN(const IndexerConfig indexer, read_block_indexer(keys));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (!selects[i]) continue;
    auto& a = std::get<AttentionConfig>(config.layers[i].mixer);
    a.indexer = indexer;
    TRY(check_layer(keys, config, a));
  }
  return {};
}

}  // namespace kvik::families
