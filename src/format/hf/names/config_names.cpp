#include "format/hf/names/config_names.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <vector>

namespace kvik::hf {
namespace {

constexpr std::string_view kKeyOfFile = "metadata key ";

// Names that most families have.
constexpr FolderValue kUsual[] = {
    {"num_hidden_layers", "block_count"},
    {"hidden_size", "embedding_length"},
    {"intermediate_size", "feed_forward_length"},
    {"num_attention_heads", "attention.head_count"},
    {"num_key_value_heads", "attention.head_count_kv"},
    {"head_dim", "attention.key_length"},
    {"max_position_embeddings", "context_length"},
    {"original_max_position_embeddings", "rope.scaling.original_context_length"},
    {"vocab_size", "vocab_size"},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
    {"rope_theta", "rope.freq_base"},
    {"sliding_window", "attention.sliding_window"},
    {"kv_lora_rank", "attention.kv_lora_rank"},
    {"q_lora_rank", "attention.q_lora_rank"},
    {"v_head_dim", "attention.value_length_mla"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"num_nextn_predict_layers", "nextn_predict_layers"},
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"indexer_types", "attention.indexer.types"},
    {"compress_ratios", "attention.compress_ratios"},
    {"full_attention_interval", "full_attention_interval"},
    {"ple_layer_ids", "ple.layers"},
    {"ngram_size", "ple.ngram_size"},
    {"heads_per_ngram", "ple.heads_per_ngram"},
    {"ple_conv_kernel_size", "ple.conv_kernel"},
    {"no_rope_layers", "rope.layers"},
    {"kv_source_layers", "attention.kv_source_layers"},
    {"expert_swiglu_limit_list", "swiglu_clamp_exp"},
    {"share_expert_swiglu_limit_list", "swiglu_clamp_shexp"},
    {"num_adapters", "adapters.count"},
    {"max_lora_rank", "adapters.lora_rank"},
    {"adapter_token_ids", "adapters.token_ids_activate"},
    {"adapter_substitute_token_ids", "adapters.token_ids_substitute"},
};

// Names of families with scales.
constexpr FolderValue kScaleNames[] = {
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"attention_multiplier", "attention.scale"},
    {"logits_scaling", "logit_scale"},
};

// Replaces all occurrences. Returns whether there was one.
bool replace_all(std::string& text, std::string_view from, std::string_view to) {
  bool is_found = false;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
    is_found = true;
  }
  return is_found;
}

}  // namespace

Error with_config_names(Error error, std::string_view architecture,
                        std::span<const FolderValue> values) {
  std::vector<FolderValue> names(values.begin(), values.end());  // these precede
  const Family* family = find_family(architecture);
  if (family && family->has_scales)
    names.insert(names.end(), std::begin(kScaleNames), std::end(kScaleNames));
  names.insert(names.end(), std::begin(kUsual), std::end(kUsual));
  bool is_named = false;
  for (const auto& [name, gguf] : names) {
    const std::string key = fmt::format("'{}.{}'", architecture, gguf);
    const std::string quoted_name = fmt::format("'{}'", name);
    is_named = replace_all(error.message, std::string(kKeyOfFile) + key, quoted_name) || is_named;
    is_named = replace_all(error.message, key, quoted_name) || is_named;
  }
  if (is_named) error.message = "config.json: " + error.message;
  return error;
}

}  // namespace kvik::hf
