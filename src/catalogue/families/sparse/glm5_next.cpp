#include "catalogue/families/sparse/glm5_next.h"

#include <fmt/format.h>

#include <string_view>
#include <variant>
#include <vector>

#include "catalogue/activation_limits.h"
#include "catalogue/families/sparse/read_indexer.h"
#include "catalogue/families/sparse/read_mixed_streams.h"
#include "catalogue/key_reader.h"
#include "catalogue/limits.h"
#include "tensor/kv_type.h"

namespace kvik::families {
namespace {

constexpr std::string_view kIndexTypes = "attention.indexer.types";
constexpr std::string_view kIndexTop = "attention.indexer.top_k";
constexpr std::string_view kIndexBlock = "attention.indexer.kpool";
constexpr std::string_view kIndexTail = "attention.indexer.kpool_select_tail";

Result<void> read_block_indexers(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(IndexerConfig indexer, read_index_heads(keys, {.has_weighted_means = true}));
  TRY_ASSIGN(indexer.n_top, keys.count(kIndexTop, kMaxContext));
  TRY_ASSIGN(indexer.key_tokens, keys.count(kIndexBlock, kPageTokens));
  if (indexer.key_tokens < 2 || kPageTokens % indexer.key_tokens != 0 ||
      indexer.n_top % indexer.key_tokens != 0) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("'{}' is {}, expected a divisor of {} and of the {} selected tokens, "
                    "at least 2",
                    keys.full(kIndexBlock), indexer.key_tokens, kPageTokens, indexer.n_top));
  }
  TRY_ASSIGN(const bool selects_tail, keys.flag(kIndexTail, true));
  if (!selects_tail) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is false, expected true", keys.full(kIndexTail)));
  }
  std::vector<bool> own(c.n_layers, true);
  if (keys.is_list(kIndexTypes)) {
    TRY_ASSIGN(own, keys.flags(kIndexTypes, c.n_layers));
  }
  bool has_selection = false;
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    auto* a = std::get_if<AttentionConfig>(&c.layers[i].mixer);
    if (!a) continue;
    a->indexer = indexer;
    a->indexer.is_shared = !own[i];
    has_selection = has_selection || own[i];
    if (has_selection) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is false for layer {}, expected that the first layer that "
                            "attends selects tokens",
                            keys.full(kIndexTypes), i));
  }
  return {};
}

}  // namespace

Result<void> finish_glm5_next(const KeyReader& keys, ModelConfig& config) {
  if (!config.has_state()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' has no 0, expected at least one layer with KDA",
                            keys.full("attention.head_count_kv")));
  }
  TRY(keys.count("attention.q_lora_rank", kMaxDim));
  TRY_ASSIGN(config.hyper, read_mixed_streams(keys, config, {.has_output_weights = false}, 2));
  TRY(read_block_indexers(keys, config));
  TRY(finish_limits(keys, config));
  for (LayerConfig& layer : config.layers) {
    if (auto* mlp = std::get_if<MlpConfig>(&layer.feed_forward)) mlp->activation.limits_gate = true;
    auto* experts = std::get_if<ExpertsConfig>(&layer.feed_forward);
    if (experts) experts->limits_gate = true;
  }
  return {};
}

Result<LayerConfig> glm5_next_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  LayerConfig layer{.mixer = config.attention(), .feed_forward = config.layers.back().feed_forward};
  std::get<AttentionConfig>(layer.mixer).indexer = {};
  TRY(set_limits(keys, config, config.n_layers, layer));
  return layer;
}

}  // namespace kvik::families
