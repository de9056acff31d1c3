#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Poolside's Laguna: an output gate by softplus, with a value per head or per element.
Result<void> finish_laguna(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderName kLagunaNames[] = {
    {kOutputGate, "self_attn.g_proj.weight"},
    {kCorrectionBias, "mlp.experts.e_score_correction_bias"},
};
inline constexpr FolderKey kLagunaKeys[] = {
    {"moe_routed_scaling_factor", "routed_scaling_factor"},
};
inline constexpr FolderValue kLagunaValues[] = {{"gating", "attention.gating"}};
inline constexpr FolderType kLagunaFolders[] = {
    {.model_type = "laguna",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128,
                     "sliding_window": 512, "num_experts": 256, "num_experts_per_tok": 8,
                     "shared_expert_intermediate_size": 512, "gating": true})",
     .keys = kLagunaKeys,
     .values = kLagunaValues,
     .fixed = R"({"attention_bias": false, "moe_apply_router_weight_on_input": false,
                  "moe_router_logit_softcapping": 0.0})",
     .window = FolderWindow::kListed,
     .has_experts = true,
     .names = kLagunaNames},
};

inline constexpr Family kLagunaFamilies[] = {
    {.name = "laguna",
     .attention = {.qk_norm = QkNorm::kHead,
                   .output_gate = OutputGate::kPerHead,
                   .gate_function = GateFunction::kSoftplus,
                   .lists_heads = true,
                   .global_every = 4,
                   .lists_windows = true},
     .rope = {.pairing = RopePairing::kHalves, .is_window_unscaled = true},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .finish = finish_laguna,
     .folders = kLagunaFolders},
};

}  // namespace kvik::families
