#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// DeepSeek V4: one vector per token as K and V (JointConfig), beside a window entries of several
// tokens each, manifold-constrained hyper-connections, and in the first layers experts by a table
// of tokens.
Result<void> finish_deepseek4(const KeyReader& keys, ModelConfig& config);
// The MTP layer has a window, but no entries and no table of tokens.
Result<LayerConfig> deepseek4_mtp_layer(const KeyReader& keys, const ModelConfig& config);

// Names in published folders.
inline constexpr FolderName kDeepseek4Names[] = {
    {kEmbedding, "embed.weight"},
    {kHead, "head.weight"},
    {kAttentionNorm, "attn_norm.weight"},
    {kQDown, "attn.wq_a.weight"},
    {kQDownNorm, "attn.q_norm.weight"},
    {kQUp, "attn.wq_b.weight"},
    {kJointKv, "attn.wkv.weight"},
    {kKvDownNorm, "attn.kv_norm.weight"},
    {kOutputDown, "attn.wo_a.weight"},
    {kOutputUp, "attn.wo_b.weight"},
    {kSinks, "attn.attn_sink"},
    {kEntryValue, "attn.compressor.wkv.weight"},
    {kEntryGate, "attn.compressor.wgate.weight"},
    {kEntryPositions, "attn.compressor.ape"},
    {kEntryNorm, "attn.compressor.norm.weight"},
    {kIndexEntryValue, "attn.indexer.compressor.wkv.weight"},
    {kIndexEntryGate, "attn.indexer.compressor.wgate.weight"},
    {kIndexEntryPositions, "attn.indexer.compressor.ape"},
    {kIndexEntryNorm, "attn.indexer.compressor.norm.weight"},
    {kIndexQuery, "attn.indexer.wq_b.weight"},
    {kIndexWeights, "attn.indexer.weights_proj.weight"},
    {kFfnNorm, "ffn_norm.weight"},
    {kRouter, "ffn.gate.weight"},
    {kCorrectionBias, "ffn.gate.bias"},
    {kExpertTable, "ffn.gate.tid2eid"},
    {kExpertGate, "ffn.experts.{}.w1.weight"},
    {kExpertUp, "ffn.experts.{}.w3.weight"},
    {kExpertDown, "ffn.experts.{}.w2.weight"},
    {kSharedGate, "ffn.shared_experts.w1.weight"},
    {kSharedUp, "ffn.shared_experts.w3.weight"},
    {kSharedDown, "ffn.shared_experts.w2.weight"},
};
inline constexpr FolderName kDeepseek4MtpNames[] = {
    {kMtpEmbeddingNorm, "enorm.weight"},
    {kMtpHiddenNorm, "hnorm.weight"},
    {kMtpEmbedding, "emb.tok_emb.weight"},
    {kMtpHead, "head.weight"},
};
inline constexpr MtpNames kDeepseek4Mtp{.head_prefix = "mtp.0.",
                                        .layer_prefix = "mtp.0.",
                                        .names = kDeepseek4MtpNames,
                                        .sign = "mtp.0.e_proj.weight",
                                        .embedding_half = "e_proj.weight",
                                        .hidden_half = "h_proj.weight"};
// Names in folders that Transformers writes.
inline constexpr FolderName kDeepseek4OtherNames[] = {
    {kEmbedding, "embed_tokens.weight"}, {kKvDownNorm, "attn.norm.weight"},
    {kHyperProjection, "hc_head.hc_fn"}, {kHyperBase, "hc_head.hc_base"},
    {kHyperScale, "hc_head.hc_scale"},
};
// Names that adapters have, those of Transformers.
inline constexpr auto kDeepseek4Modules = with_shared_experts({
    {kEntryValue, "self_attn.compressor.kv_proj.weight"},
    {kEntryGate, "self_attn.compressor.gate_proj.weight"},
    {kIndexEntryValue, "self_attn.compressor.indexer.kv_proj.weight"},
    {kIndexEntryGate, "self_attn.compressor.indexer.gate_proj.weight"},
    {kIndexQuery, "self_attn.compressor.indexer.q_b_proj.weight"},
    {kIndexWeights, "self_attn.compressor.indexer.scorer.weights_proj.weight"},
});
inline constexpr FolderValue kDeepseek4Values[] = {
    {"q_lora_rank", "attention.q_lora_rank"},
    {"sliding_window", "attention.sliding_window"},
    {"o_groups", "attention.output_group_count"},
    {"o_lora_rank", "attention.output_lora_rank"},
    {"compress_rope_theta", "attention.compress_rope_freq_base"},
    {"index_n_heads", "attention.indexer.head_count"},
    {"index_head_dim", "attention.indexer.key_length"},
    {"index_topk", "attention.indexer.top_k"},
    {"hc_mult", "hyper_connection.count"},
    {"hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations"},
    {"hc_eps", "hyper_connection.epsilon"},
    {"num_hash_layers", "hash_layer_count"},
    {"swiglu_limit", "swiglu_clamp_exp"},
};
inline constexpr FolderType kDeepseek4Folders[] = {
    {.model_type = "deepseek_v4",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "num_key_value_heads": 1, "head_dim": 512, "partial_rotary_factor": 0.125,
                     "routed_scaling_factor": 1.5, "scoring_func": "sqrtsoftplus",
                     "n_shared_experts": 1, "sliding_window": 128, "compress_rope_theta": 160000,
                     "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "swiglu_limit": 10,
                     "num_hash_layers": 3, "o_groups": 8, "o_lora_rank": 1024,
                     "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512})",
     .values = kDeepseek4Values,
     .fixed = R"({"attention_bias": false, "mlp_bias": false, "num_key_value_heads": 1,
                  "norm_topk_prob": true, "scoring_func": "sqrtsoftplus"})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kDeepseek4Names,
     .other_names = kDeepseek4OtherNames,
     .has_entry_keys = true,
     .mtp = &kDeepseek4Mtp},
};

inline constexpr Family kDeepseek4Families[] = {
    {.name = "deepseek4",
     .attention = {.has_sinks = true, .is_joint = true},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{.scoring = ExpertScoring::kSqrtSoftplus,
                             .correction_bias = Presence::kAlways},
     .finish = finish_deepseek4,
     .mtp_layer = deepseek4_mtp_layer,
     .mtp_streams = StreamNorm::kShared,
     .folders = kDeepseek4Folders,
     .modules = kDeepseek4Modules},
};

}  // namespace kvik::families
