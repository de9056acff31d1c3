#pragma once

#include "catalogue/activation_limits.h"
#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// An MTP layer has MLA, and the experts of the last layer with limits of its own.
Result<LayerConfig> bailing_hybrid_mtp_layer(const KeyReader& keys, const ModelConfig& config);

// Ling 3.0: layers of KDA whose decays have a bound, and of MLA with an output gate per head.
inline constexpr auto kBailingHybridNames = with_shared_experts({
    {kEmbedding, "word_embeddings.weight"},
    {kQ, "attention.q_proj.weight"},
    {kK, "attention.k_proj.weight"},
    {kV, "attention.v_proj.weight"},
    {kQDown, "attention.q_a_proj.weight"},
    {kQDownNorm, "attention.q_a_layernorm.weight"},
    {kQUp, "attention.q_b_proj.weight"},
    {kKvDown, "attention.kv_a_proj_with_mqa.weight"},
    {kKvDownNorm, "attention.kv_a_layernorm.weight"},
    {kKvUp, "attention.kv_b_proj.weight"},
    {kOutputGate, "attention.g_proj.weight"},
    {kAttentionOutput, "attention.dense.weight"},
    {kQConv, "attention.q_conv1d.weight"},
    {kKConv, "attention.k_conv1d.weight"},
    {kVConv, "attention.v_conv1d.weight"},
    {kDecayDown, "attention.f_proj.weight"},
    {kGateDown, "attention.g_proj.weight"},
    {kStateBeta, "attention.b_proj.weight"},
    {kStateStepBias, "attention.dt_bias"},
    {kStateDecay, "attention.A_log"},
    {kStateNorm, "attention.o_norm.weight"},
    {kCorrectionBias, "mlp.gate.expert_bias"},
});
inline constexpr FolderKey kBailingHybridKeys[] = {
    {"num_shared_experts", "n_shared_experts"},
    {"num_mtp_layers", "num_nextn_predict_layers"},
    {"num_expert_group", "n_group"},
    {"score_function", "scoring_func"},
    {"model_max_length", "max_position_embeddings"},
    {"num_experts_per_token", "num_experts_per_tok"},
    {"moe_renormalize", "norm_topk_prob"},
};
inline constexpr auto kBailingHybridMtpNames =
    with_mtp_names({{kMtpOutputNorm, "final_layernorm.weight"}});
inline constexpr MtpNames kBailingHybridMtp{
    .head_prefix = "layers.{}.", .layer_prefix = "layers.{}.", .names = kBailingHybridMtpNames};
inline constexpr FolderType kBailingHybridFolders[] = {
    {.model_type = "bailing_hybrid",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "rope_theta": 6000000.0,
                     "head_dim": 128, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
                     "qk_rope_head_dim": 64, "v_head_dim": 128, "short_conv_kernel_size": 4,
                     "layer_group_size": 6, "kda_lower_bound": -5.0, "n_group": 8,
                     "topk_group": 4, "num_experts": 512, "num_experts_per_tok": 8,
                     "n_shared_experts": 1, "first_k_dense_replace": 2, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "scoring_func": "sigmoid"})",
     .keys = kBailingHybridKeys,
     .fixed = R"({"kda_safe_gate": true, "no_kda_lora": true, "rope_interleave": true,
                  "gated_attention_proj_granularity_type": "head_wise", "use_mla_nope": false,
                  "mtp_use_kda": false, "attention_bias": false, "use_bias": false,
                  "use_qkv_bias": false, "value_norm": false, "up_proj_norm": false,
                  "use_nGPT": false, "scale_router_input": false})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kBailingHybridNames,
     .other_output = "attention.o_proj.weight",
     .mtp = &kBailingHybridMtp},
};

inline constexpr Family kBailingHybridFamilies[] = {
    {.name = "bailingmoe3",
     .attention = {.output_gate = OutputGate::kPerHead, .is_latent = true},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .recurrence = {.kind = Recurrence::kKda, .is_kda_bounded = true},
     .finish = finish_limits,
     .mtp_layer = bailing_hybrid_mtp_layer,
     .folders = kBailingHybridFolders},
};

}  // namespace kvik::families
