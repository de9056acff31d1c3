#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kArceeFolders[] = {
    {.model_type = "arcee", .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})"},
};

// Trinity: one of four layers has full attention, without RoPE.
inline constexpr auto kAfmoeNames = with_shared_experts({
    {kFfnNorm, "pre_mlp_layernorm.weight"},
    {kPostFfnNorm, "post_mlp_layernorm.weight"},
    {kOutputGate, "self_attn.gate_proj.weight"},
    {kRouter, "mlp.router.gate.weight"},
    {kCorrectionBias, "mlp.expert_bias"},
});
inline constexpr FolderKey kAfmoeKeys[] = {
    {"num_dense_layers", "first_k_dense_replace"},
    {"num_shared_experts", "n_shared_experts"},
    {"route_scale", "routed_scaling_factor"},
};
inline constexpr FolderType kAfmoeFolders[] = {
    {.model_type = "afmoe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128,
                     "n_shared_experts": 2, "first_k_dense_replace": 1,
                     "routed_scaling_factor": 1.0, "sliding_window": 1024})",
     .keys = kAfmoeKeys,
     .fixed = R"({"attention_bias": false, "mup_enabled": true, "route_norm": true,
                  "score_func": "sigmoid", "global_attn_every_n_layers": 4})",
     .window = FolderWindow::kListed,
     .has_experts = true,
     .names = kAfmoeNames},
};

inline constexpr Family kArceeFamilies[] = {
    {.name = "arcee",
     .activation = Activation::kReluSquared,
     .attention = {.qkv_bias = Presence::kOptional, .output_bias = Presence::kOptional},
     .mlp_bias = Presence::kOptional,
     .folders = kArceeFolders},
    {.name = "afmoe",
     .attention = {.qk_norm = QkNorm::kHead,
                   .output_gate = OutputGate::kOwn,
                   .global_every = 4,
                   .global_at = 3,
                   .lists_windows = true,
                   .is_global_unrotated = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.has_post_norms = true},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kOptional},
     .scales_embedding = true,
     .folders = kAfmoeFolders},
};

}  // namespace kvik::families
