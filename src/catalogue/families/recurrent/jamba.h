#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Jamba: layers of Mamba 1 and of attention without RoPE; some layers have experts.
inline constexpr FolderName kJambaNames[] = {
    {kOutputNorm, "final_layernorm.weight"},
    {kFfnNorm, "pre_ff_layernorm.weight"},
    {kSpaceIn, "mamba.in_proj.weight"},
    {kStateConv, "mamba.conv1d.weight"},
    {kSpaceConvBias, "mamba.conv1d.bias"},
    {kStateStepBias, "mamba.dt_proj.bias"},
    {kStateDecay, "mamba.A_log"},
    {kSpaceSkip, "mamba.D"},
    {kStateOutput, "mamba.out_proj.weight"},
    {kGate, "feed_forward.gate_proj.weight"},
    {kUp, "feed_forward.up_proj.weight"},
    {kDown, "feed_forward.down_proj.weight"},
    {kRouter, "feed_forward.router.weight"},
    {kExpertGate, "feed_forward.experts.{}.gate_proj.weight"},
    {kExpertUp, "feed_forward.experts.{}.up_proj.weight"},
    {kExpertDown, "feed_forward.experts.{}.down_proj.weight"},
};
inline constexpr FolderType kJambaFolders[] = {
    {.model_type = "jamba",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "num_experts": 16,
                     "num_experts_per_tok": 2, "num_key_value_heads": 8, "expert_layer_period": 2,
                     "expert_layer_offset": 1, "attn_layer_period": 8, "attn_layer_offset": 4,
                     "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
                     "mamba_dt_rank": "auto"})",
     .fixed = R"({"mamba_conv_bias": true, "mamba_proj_bias": false})",
     .has_experts = true,
     .names = kJambaNames,
     .gate_up_stack = "feed_forward.experts.gate_up_proj",
     .down_stack = "feed_forward.experts.down_proj"},
};

inline constexpr Family kJambaFamilies[] = {
    {.name = "jamba",
     .rope = {.pairing = RopePairing::kHalves, .may_be_absent = true},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{.normalizes = false},
     .recurrence = {.kind = Recurrence::kSelective},
     .folders = kJambaFolders},
};

}  // namespace kvik::families
