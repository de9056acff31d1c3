#pragma once

#include "catalogue/activation_limits.h"
#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Step 3.5 and 3.7 (text): layers with a window have more heads and rotate all dimensions, the
// others half of them; both factors of the MLPs' product are limited in some layers. MTP layers
// have an MLP; files list whether they have a window. Folders state it for the first.
Result<LayerConfig> step35_mtp_layer(const KeyReader& keys, const ModelConfig& config);

inline constexpr FolderName kStepNames[] = {
    {kOutputGate, "self_attn.g_proj.weight"},   {kRouter, "moe.gate.weight"},
    {kCorrectionBias, "moe.router_bias"},       {kSharedGate, "share_expert.gate_proj.weight"},
    {kSharedUp, "share_expert.up_proj.weight"}, {kSharedDown, "share_expert.down_proj.weight"},
};
inline constexpr FolderKey kStepKeys[] = {
    {"num_attention_groups", "num_key_value_heads"},
    {"moe_num_experts", "n_routed_experts"},
    {"moe_top_k", "num_experts_per_tok"},
    {"share_expert_dim", "shared_expert_intermediate_size"},
    {"moe_router_scaling_factor", "routed_scaling_factor"},
    {"norm_expert_weight", "norm_topk_prob"},
};
inline constexpr FolderValue kStepValues[] = {
    {"kvik_mtp_is_windowed", "mtp.is_windowed"},
    {"kvik_mtp_limit", "mtp.swiglu_clamp"},
    {"swiglu_limits", "swiglu_clamp_exp"},
    {"swiglu_limits_shared", "swiglu_clamp_shexp"},
};
inline constexpr auto kStepMtpNames =
    with_mtp_names({{kMtpOutputNorm, "transformer.shared_head.norm.weight"},
                    {kMtpHead, "transformer.shared_head.output.weight"}});
inline constexpr MtpNames kStepMtp{.head_prefix = "layers.{}.",
                                   .layer_prefix = "layers.{}.",
                                   .names = kStepMtpNames,
                                   .sign = "layers.{}.eh_proj.weight"};
inline constexpr FolderType kStepFolders[] = {
    {.model_type = "step3p5",
     .multimodal_type = "step3p7",
     .is_any_text_type = true,
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128,
                     "norm_topk_prob": true})",
     .keys = kStepKeys,
     .values = kStepValues,
     .fixed = R"({"attention_bias": false, "mlp_bias": false, "use_head_wise_attn_gate": true,
                  "moe_router_activation": "sigmoid", "use_moe_router_bias": true,
                  "zero_centered": true, "yarn_only_types": ["full_attention"]})",
     .window = FolderWindow::kListed,
     .has_experts = true,
     .has_zero_centered_norms = true,
     .names = kStepNames,
     .gate_up_stack = "moe.gate_proj.weight",
     .up_stack = "moe.up_proj.weight",
     .down_stack = "moe.down_proj.weight",
     .has_step_keys = true,
     .mtp = &kStepMtp},
};

inline constexpr Family kStepFamilies[] = {
    {.name = "step35",
     .attention = {.qk_norm = QkNorm::kHead,
                   .output_gate = OutputGate::kPerHead,
                   .lists_heads = true,
                   .global_every = 4,
                   .lists_windows = true},
     .rope = {.pairing = RopePairing::kHalves,
              .is_window_unscaled = true,
              .is_global_halved = true},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .finish = finish_limits,
     .mtp_layer = step35_mtp_layer,
     .is_mtp_hidden_raw = true,
     .folders = kStepFolders},
};

}  // namespace kvik::families
