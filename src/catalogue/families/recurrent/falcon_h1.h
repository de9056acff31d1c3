#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Attention and Mamba 2 run in parallel in every layer. config.json states factors of their inputs
// and outputs, which GGUF files of llama.cpp include in the weights.
Result<void> finish_falcon_h1(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderName kFalconH1Names[] = {
    {kOutputNorm, "final_layernorm.weight"},
    {kBareFfnNorm, "pre_ff_layernorm.weight"},
    {kSpaceIn, "mamba.in_proj.weight"},
    {kStateConv, "mamba.conv1d.weight"},
    {kSpaceConvBias, "mamba.conv1d.bias"},
    {kStateStepBias, "mamba.dt_bias"},
    {kStateDecay, "mamba.A_log"},
    {kSpaceSkip, "mamba.D"},
    {kStateNorm, "mamba.norm.weight"},
    {kStateOutput, "mamba.out_proj.weight"},
    {kGate, "feed_forward.gate_proj.weight"},
    {kUp, "feed_forward.up_proj.weight"},
    {kDown, "feed_forward.down_proj.weight"},
};
inline constexpr FolderValue kFalconH1Values[] = {
    {"embedding_multiplier", "embedding_scale"},
    {"lm_head_multiplier", "logit_scale"},
    {"ssm_out_multiplier", "ssm.out_scale"},
};
inline constexpr FolderType kFalconH1Folders[] = {
    {.model_type = "falcon_h1",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "mamba_n_heads": 128,
                     "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
                     "mamba_expand": 2, "mamba_d_ssm": 1024})",
     .values = kFalconH1Values,
     .fixed = R"({"attention_bias": false, "mlp_bias": false, "projectors_bias": false,
                  "mamba_proj_bias": false, "mamba_conv_bias": true})",
     .names = kFalconH1Names},
};

inline constexpr Family kFalconH1Families[] = {
    {.name = "falcon-h1",
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.is_ffn_norm_bare = true},
     .recurrence = {.kind = Recurrence::kStateSpace, .is_beside_attention = true},
     .has_logit_factor = true,
     .finish = finish_falcon_h1,
     .folders = kFalconH1Folders},
};

}  // namespace kvik::families
