#include "catalogue/families/sparse/deepseek_sparse.h"

#include <fmt/format.h>

#include <variant>
#include <vector>

#include "catalogue/key_reader.h"
#include "catalogue/limits.h"

namespace kvik::families {
namespace {

constexpr std::string_view kTypes = "attention.indexer.types";
constexpr std::string_view kHeads = "attention.indexer.head_count";
constexpr std::string_view kKeyLength = "attention.indexer.key_length";

Result<void> read_indexer(const KeyReader& keys, RopePairing pairing, ModelConfig& c) {
  IndexerConfig indexer{.pairing = pairing};
  TRY_ASSIGN(indexer.n_heads, keys.count(kHeads, kMaxHeads));
  TRY_ASSIGN(indexer.head_dim, keys.count(kKeyLength, kMaxHeadDim));
  TRY_ASSIGN(indexer.n_top, keys.count("attention.indexer.top_k", kMaxContext));
  for (LayerConfig& layer : c.layers) {
    auto& a = std::get<AttentionConfig>(layer.mixer);
    a.indexer = indexer;
    if (a.latent.q_rank == 0) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("'{}' is 0, expected the rank from which the indexer's queries are "
                              "computed",
                              keys.full("attention.q_lora_rank")));
    }
    if (indexer.head_dim < a.latent.qk_rope_head_dim) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' is {}, expected at least the {} RoPE dimensions",
                              keys.full(kKeyLength), indexer.head_dim, a.latent.qk_rope_head_dim));
    }
  }
  return {};
}

// Returns whether each layer has an indexer of its own. The first files of GLM 5.2 do not state it.
Result<std::vector<bool>> own_indexers(const KeyReader& keys, const ModelConfig& c) {
  constexpr uint32_t kContextOf52 = 1 << 20;
  std::vector<bool> own(c.n_layers, true);
  if (keys.is_list(kTypes)) {
    const size_t n = c.n_layers;
    TRY_ASSIGN(own, keys.flags(kTypes, n));
  } else if (c.n_ctx_train >= kContextOf52) {
    for (uint32_t i = 3; i < c.n_layers; ++i) own[i] = (i - 2) % 4 == 0;
  }
  if (own.front()) return own;
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' begins with false, expected that the first layer selects tokens",
                          keys.full(kTypes)));
}

}  // namespace

Result<void> finish_deepseek32(const KeyReader& keys, ModelConfig& config) {
  return read_indexer(keys, RopePairing::kHalves, config);
}

Result<void> finish_glm_dsa(const KeyReader& keys, ModelConfig& config) {
  TRY(read_indexer(keys, RopePairing::kInterleaved, config));
  TRY_ASSIGN(const auto own, own_indexers(keys, config));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    std::get<AttentionConfig>(config.layers[i].mixer).indexer.is_shared = !own[i];
  }
  return {};
}

}  // namespace kvik::families
