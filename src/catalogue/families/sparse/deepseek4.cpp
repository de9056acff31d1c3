#include "catalogue/families/sparse/deepseek4.h"

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

constexpr uint32_t kOverlapping = 4;  // tokens of the entries that overlap and are selected
constexpr std::string_view kEntryTokens = "attention.compress_ratios";
constexpr std::string_view kOutputGroups = "attention.output_group_count";

Result<JointConfig> read_joint(const KeyReader& keys, const ModelConfig& c) {
  const AttentionConfig& a = c.attention();
  JointConfig joint{.rope_dim = c.ropes.front().n_dims};
  TRY_ASSIGN(joint.q_rank, keys.count("attention.q_lora_rank", kMaxDim));
  TRY_ASSIGN(joint.n_groups, keys.count(kOutputGroups, a.n_heads));
  TRY_ASSIGN(joint.group_rank, keys.count("attention.output_lora_rank", kMaxDim / joint.n_groups));
  if (a.n_heads % joint.n_groups != 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {}, expected a divisor of the {} heads",
                            keys.full(kOutputGroups), joint.n_groups, a.n_heads));
  }
  if (a.n_kv_heads != 1 || a.head_dim % 16 != 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {} with {} KV heads, expected a multiple of 16 and one KV "
                            "head",
                            keys.full("attention.key_length"), a.head_dim, a.n_kv_heads));
  }
  if (a.window == 0) {
    return fail(ErrorCode::kCorrupt, fmt::format("'{}' is 0, expected a number of tokens",
                                                 keys.full("attention.sliding_window")));
  }
  return joint;
}

// Reads the indexer that selects overlapping entries.
Result<EntriesConfig> read_selected(const KeyReader& keys, uint32_t rope_dim) {
  EntriesConfig entries{.n_tokens = kOverlapping, .overlaps = true};
  TRY_ASSIGN(const IndexerConfig indexer, read_index_heads(keys, {}));
  TRY(check_index_rope(keys, indexer, rope_dim));
  entries.n_index_heads = indexer.n_heads;
  entries.index_dim = indexer.head_dim;
  TRY_ASSIGN(entries.n_top, keys.count("attention.indexer.top_k", kMaxContext));
  return entries;
}

// Layers without entries have a RoPE without scaling and with a base of its own.
Result<void> read_entry_ropes(const KeyReader& keys, ModelConfig& c) {
  RopeConfig main = c.ropes.front();
  main = {.base = main.base, .n_dims = main.n_dims, .pairing = main.pairing};
  RopeConfig& of_entries = c.ropes.front();
  TRY_ASSIGN(of_entries.base,
             keys.positive("attention.compress_rope_freq_base", double{main.base}));
  of_entries.magnitude = 1.0f;
  c.ropes.push_back(main);
  return {};
}

Result<void> read_joint_layers(const KeyReader& keys, const JointConfig& joint, ModelConfig& c) {
  TRY_ASSIGN(const std::vector<uint64_t> ratios, keys.integers_at_least(kEntryTokens, c.n_layers));
  EntriesConfig selected;
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    auto& a = std::get<AttentionConfig>(c.layers[i].mixer);
    const uint64_t ratio = ratios[i];
    a.joint = joint;
    if (ratio == kOverlapping && !selected.exist()) {
      TRY_ASSIGN(selected, read_selected(keys, joint.rope_dim));
    }
    const bool is_whole = ratio <= kMaxContext &&
                          (ratio == 0 || kPageTokens % ratio == 0 || ratio % kPageTokens == 0);
    if (!is_whole) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("'{}' is {} in layer {}, expected 0, or a divisor or a multiple of "
                              "{}",
                              keys.full(kEntryTokens), ratio, i, kPageTokens));
    }
    a.rope = ratio == 0 ? 1 : 0;
    a.joint.entries =
        ratio == kOverlapping ? selected : EntriesConfig{.n_tokens = static_cast<uint32_t>(ratio)};
  }
  return {};
}

Result<void> read_token_tables(const KeyReader& keys, ModelConfig& c) {
  TRY(finish_limits(keys, c));
  TRY_ASSIGN(const uint32_t n_tables, keys.optional_count("hash_layer_count", kMaxLayers));
  const bool has_shared_limits = keys.has("swiglu_clamp_shexp");
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    auto* experts = std::get_if<ExpertsConfig>(&c.layers[i].feed_forward);
    if (!experts) {
      return fail(ErrorCode::kUnsupported, fmt::format("layer {} has no experts, expected some "
                                                       "('{}')",
                                                       i, keys.full("expert_count")));
    }
    if (!has_shared_limits) experts->shared_limit = experts->limit;
    experts->limits_gate = true;
    experts->has_token_table = i < n_tables;
    if (experts->has_token_table) experts->has_correction_bias = false;
  }
  return {};
}

}  // namespace

Result<void> finish_deepseek4(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(config.hyper, read_mixed_streams(keys, config, {}, 1));
  TRY_ASSIGN(const JointConfig joint, read_joint(keys, config));
  TRY(read_entry_ropes(keys, config));
  TRY(read_joint_layers(keys, joint, config));
  return read_token_tables(keys, config);
}

Result<LayerConfig> deepseek4_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  TRY_ASSIGN(const auto ratios, keys.integers_at_least(kEntryTokens, config.n_listed_layers()));
  if (const uint64_t ratio = ratios[config.n_layers]; ratio != 0) {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' is {} in the MTP layer, expected 0",
                                                     keys.full(kEntryTokens), ratio));
  }
  LayerConfig layer = config.layers.back();
  auto& a = std::get<AttentionConfig>(layer.mixer);
  a.joint.entries = {};
  a.rope = 1;
  TRY(set_limits(keys, config, config.n_layers, layer));
  auto& experts = std::get<ExpertsConfig>(layer.feed_forward);
  if (!keys.has("swiglu_clamp_shexp")) experts.shared_limit = experts.limit;
  experts.has_correction_bias = true;
  experts.has_token_table = false;
  return layer;
}

}  // namespace kvik::families
