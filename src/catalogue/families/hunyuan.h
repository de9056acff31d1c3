#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kHunyuanNames[] = {
    {kQNorm, "self_attn.query_layernorm.weight"},
    {kKNorm, "self_attn.key_layernorm.weight"},
    {kRouter, "mlp.gate.wg.weight"},
    {kSharedGate, "mlp.shared_mlp.gate_proj.weight"},
    {kSharedUp, "mlp.shared_mlp.up_proj.weight"},
    {kSharedDown, "mlp.shared_mlp.down_proj.weight"},
};
inline constexpr FolderType kHunyuanDenseFolders[] = {
    {.model_type = "hunyuan_v1_dense",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .fixed = R"({"attention_bias": false})",
     .names = kHunyuanNames},
};
// The shared expert is as wide as the others.
inline constexpr FolderKey kHunyuanMoeKeys[] = {{"moe_topk", "num_experts_per_tok"},
                                                {"num_shared_expert", "n_shared_experts"}};
inline constexpr FolderType kHunyuanMoeFolders[] = {
    {.model_type = "hunyuan_v1_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "n_shared_experts": 1})",
     .keys = kHunyuanMoeKeys,
     .fixed = R"({"attention_bias": false})",
     .has_experts = true,
     .names = kHunyuanNames},
};

inline constexpr FolderName kHyV3Names[] = {
    {kRouter, "mlp.router.gate.weight"},
    {kCorrectionBias, "mlp.expert_bias"},
    {kSharedGate, "mlp.shared_mlp.gate_proj.weight"},
    {kSharedUp, "mlp.shared_mlp.up_proj.weight"},
    {kSharedDown, "mlp.shared_mlp.down_proj.weight"},
};
inline constexpr FolderKey kHyV3Keys[] = {{"router_scaling_factor", "routed_scaling_factor"},
                                          {"num_shared_experts", "n_shared_experts"}};
inline constexpr auto kHyV3MtpNames = with_mtp_names({{kMtpOutputNorm, "final_layernorm.weight"}});
inline constexpr MtpNames kHyV3Mtp{
    .head_prefix = "layers.{}.", .layer_prefix = "layers.{}.", .names = kHyV3MtpNames};
inline constexpr FolderType kHyV3Folders[] = {
    {.model_type = "hy_v3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128,
                     "rope_theta": 11158840.0, "n_shared_experts": 1, "first_k_dense_replace": 1,
                     "routed_scaling_factor": 2.826})",
     .keys = kHyV3Keys,
     .fixed = R"({"attention_bias": false, "mlp_bias": false})",
     .has_experts = true,
     .names = kHyV3Names,
     .mtp = &kHyV3Mtp},
};

inline constexpr Family kHunyuanFamilies[] = {
    {.name = "hunyuan-dense",
     .attention = {.qk_norm = QkNorm::kHead, .is_norm_after_rope = true},
     .rope = {.pairing = RopePairing::kHalves},
     .folders = kHunyuanDenseFolders},
    {.name = "hunyuan-moe",
     .attention = {.qk_norm = QkNorm::kHead, .is_norm_after_rope = true},
     .rope = {.pairing = RopePairing::kHalves},
     .experts = ExpertTraits{},
     .folders = kHunyuanMoeFolders},
    {.name = "hy_v3",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .experts = ExpertTraits{.scoring = ExpertScoring::kSigmoid,
                             .n_dense_layers = 1,
                             .correction_bias = Presence::kOptional},
     .mtp_layer = usual_mtp_layer,
     .folders = kHyV3Folders},
};

}  // namespace kvik::families
