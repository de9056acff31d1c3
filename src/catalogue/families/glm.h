#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kGlm4MoeFolders[] = {
    {.model_type = "glm4_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "partial_rotary_factor": 0.5, "n_group": 1, "topk_group": 1,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
                     "n_shared_experts": 1})",
     .has_experts = true,
     .names = kSharedExpertsNames},
    {.model_type = "solar_open",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "rope_theta": 1e6, "n_group": 1, "topk_group": 1,
                     "routed_scaling_factor": 1.0, "n_shared_experts": 1})",
     .fixed = R"({"attention_bias": false})",
     .has_experts = true,
     .names = kSharedExpertsNames},
};

inline constexpr FolderName kGlm4Names[] = {
    {kPostAttentionNorm, "post_self_attn_layernorm.weight"},
    {kPostFfnNorm, "post_mlp_layernorm.weight"},
    {kUp, "mlp.gate_up_proj.weight"},
};
inline constexpr FolderType kGlm4Folders[] = {
    {.model_type = "glm4",
     .defaults = R"({"rms_norm_eps": 1.5625e-7, "tie_word_embeddings": false, "head_dim": 128,
                     "partial_rotary_factor": 0.5})",
     .is_interleaved = true,
     .names = kGlm4Names},
};

inline constexpr Family kGlmFamilies[] = {
    {.name = "glm4",
     .attention = {.qkv_bias = Presence::kOptional},
     .norms = {.has_post_norms = true},
     .has_fused_mlp = true,
     .folders = kGlm4Folders},
    {.name = "glm4moe",
     .attention = {.qkv_bias = Presence::kOptional,
                   .qk_norm = QkNorm::kHead,
                   .is_qk_norm_optional = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.is_ffn_norm_post_attention = true},
     .experts = ExpertTraits{.normalizes = false,
                             .scoring = ExpertScoring::kSigmoid,
                             .correction_bias = Presence::kAlways},
     .mtp_layer = usual_mtp_layer,
     .folders = kGlm4MoeFolders},
};

}  // namespace kvik::families
