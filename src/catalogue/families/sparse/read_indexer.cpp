#include "catalogue/families/sparse/read_indexer.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <variant>

#include "catalogue/limits.h"

namespace kvik::families {
namespace {

constexpr std::string_view kTypes = "attention.indexer.types";
constexpr std::string_view kHeads = "attention.indexer.head_count";
constexpr std::string_view kKeyLength = "attention.indexer.key_length";

}  // namespace

Result<IndexerConfig> read_index_heads(const KeyReader& keys, const IndexerConfig& usual) {
  IndexerConfig indexer = usual;
  TRY_ASSIGN(indexer.n_heads, keys.count(kHeads, kMaxHeads));
  TRY_ASSIGN(indexer.head_dim, keys.count(kKeyLength, kMaxHeadDim));
  return indexer;
}

Result<void> check_index_rope(const KeyReader& keys, const IndexerConfig& indexer,
                              uint32_t n_rope_dims) {
  if (indexer.head_dim >= n_rope_dims) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' is {}, expected at least the {} RoPE dimensions",
                          keys.full(kKeyLength), indexer.head_dim, n_rope_dims));
}

Result<void> read_indexer(const KeyReader& keys, const IndexerConfig& usual, ModelConfig& c) {
  TRY_ASSIGN(IndexerConfig indexer, read_index_heads(keys, usual));
  TRY_ASSIGN(indexer.n_top, keys.count("attention.indexer.top_k", kMaxContext));
  for (LayerConfig& layer : c.layers) {
    auto& a = std::get<AttentionConfig>(layer.mixer);
    a.indexer = indexer;
    if (a.latent.q_rank == 0 && !indexer.has_input_norm) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("'{}' is 0, expected the rank from which the indexer's queries are "
                              "computed",
                              keys.full("attention.q_lora_rank")));
    }
    TRY(check_index_rope(keys, indexer, a.latent.qk_rope_head_dim));
  }
  return {};
}

Result<void> read_shared_indexers(const KeyReader& keys, std::vector<bool> usual, ModelConfig& c) {
  std::vector<bool> own = std::move(usual);
  if (keys.is_list(kTypes)) {
    TRY_ASSIGN(own, keys.flags(kTypes, c.n_layers));
  }
  if (!own.front()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' begins with false, expected that the first layer selects tokens",
                            keys.full(kTypes)));
  }
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    std::get<AttentionConfig>(c.layers[i].mixer).indexer.is_shared = !own[i];
  }
  return {};
}

}  // namespace kvik::families
