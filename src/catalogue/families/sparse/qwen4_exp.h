#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Qwen3.8-Flash-Next ("qwen4exp"): layers of Qwen 3.5 with hyper-connections, embeddings of n-grams
// before one layer, and attention to blocks of tokens that an indexer selects.
Result<void> finish_qwen4_exp(const KeyReader& keys, ModelConfig& config);
// The MTP layer attends to all tokens, as in llama.cpp; its indexer is not used.
Result<LayerConfig> qwen4_exp_mtp_layer(const KeyReader& keys, const ModelConfig& config);

// llama.cpp normalizes each stream of a hidden state, vLLM and SGLang all of them together.
inline constexpr MtpNames kQwen4ExpMtp{.head_prefix = "mtp.",
                                       .layer_prefix = "mtp.layers.0.",
                                       .is_in_model = false,
                                       .sign = "mtp.fc_embedding.weight",
                                       .embedding_half = "fc_embedding.weight",
                                       .hidden_half = "fc_hidden.weight",
                                       .norms_streams_together = true};

inline constexpr FolderName kQwen4ExpNames[] = {
    {kQkv, "linear_attn.in_proj_qkv.weight"},
    {kIndexHeadQuery, "self_attn.indexer.index_qk_proj.weight"},
    {kIndexHeadKey, "self_attn.indexer.index_qk_proj.weight"},
    {kIndexQueryNorm, "self_attn.indexer.q_layernorm.weight"},
    {kIndexKeyNorm, "self_attn.indexer.k_layernorm.weight"},
};
inline constexpr FolderValue kQwen4ExpValues[] = {
    {"hc_count", "hyper_connection.count"},
    {"hc_lowrank", "hyper_connection.low_rank"},
    {"indexer_n_heads", "attention.indexer.head_count"},
    {"indexer_head_dim", "attention.indexer.key_length"},
    {"indexer_budget", "attention.indexer.top_k"},
    {"indexer_compress_ratio", "attention.compress_ratios"},
    {"output_gate_type", "ssm.output_gate"},
};
inline constexpr FolderType kQwen4ExpFolders[] = {
    {.model_type = "qwen4_exp_text",
     .multimodal_type = "qwen4_exp",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 2, "linear_conv_kernel_dim": 4,
                     "linear_key_head_dim": 128, "linear_value_head_dim": 128,
                     "linear_num_key_heads": 16, "linear_num_value_heads": 32,
                     "full_attention_interval": 4, "norm_topk_prob": true, "hc_count": 4,
                     "hc_lowrank": 320, "ple_conv_kernel_size": 4, "ngram_size": 3,
                     "heads_per_ngram": 8, "ngram_vocab_size_base": 20000000, "seed": 1234,
                     "make_ngram_vocab_size_divisible_by": 128, "split_ngram_parts": 512})",
     .values = kQwen4ExpValues,
     .fixed = R"({"attention_bias": false, "indexer_kv_heads": 1})",
     .has_experts = true,
     .has_zero_centered_norms = true,
     .names = kQwen4ExpNames,
     .has_ngrams = true,
     .mtp = &kQwen4ExpMtp},
};

inline constexpr Family kQwen4ExpFamilies[] = {
    {.name = "qwen4exp",
     .attention = {.qk_norm = QkNorm::kHead, .output_gate = OutputGate::kInQ},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_pre_norms = false},
     .experts = ExpertTraits{.has_shared_gate = true},
     .recurrence = {.kind = Recurrence::kDelta},
     .finish = finish_qwen4_exp,
     .mtp_layer = qwen4_exp_mtp_layer,
     .lacks_mtp_output_norm = true,
     .mtp_streams = StreamNorm::kOwn,
     .folders = kQwen4ExpFolders},
};

}  // namespace kvik::families
