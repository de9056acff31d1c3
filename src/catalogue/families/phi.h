#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kPhiNames[] = {{kUp, "mlp.gate_up_proj.weight"}};
inline constexpr FolderType kPhi3Folders[] = {
    {.model_type = "phi3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .window = FolderWindow::kStated,
     .names = kPhiNames},
};

// Attention and MLP of a layer read one layer norm of its input.
inline constexpr FolderName kPhi2Names[] = {
    {kOutputNorm, "final_layernorm.weight"},
    {kOutputNormBias, "final_layernorm.bias"},
    {kHeadBias, "lm_head.bias"},
    {kAttentionOutput, "self_attn.dense.weight"},
    {kAttentionOutputBias, "self_attn.dense.bias"},
    {kUp, "mlp.fc1.weight"},
    {kUpBias, "mlp.fc1.bias"},
    {kDown, "mlp.fc2.weight"},
    {kDownBias, "mlp.fc2.bias"},
};
inline constexpr FolderType kPhi2Folders[] = {
    {.model_type = "phi",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": false,
                     "partial_rotary_factor": 0.5})",
     .fixed = R"({"qk_layernorm": false})",
     .names = kPhi2Names},
};

inline constexpr Family kPhiFamilies[] = {
    {.name = "phi2",
     .activation = Activation::kPlainGeluTanh,
     .attention = {.qkv_bias = Presence::kAlways, .output_bias = Presence::kAlways},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias, .is_shared = true},
     .has_parallel_halves = true,
     .mlp_bias = Presence::kAlways,
     .has_head_bias = true,
     .folders = kPhi2Folders},
    {.name = "phi3",
     .attention = {.is_fused = true},
     .rope = {.pairing = RopePairing::kHalves},
     .has_fused_mlp = true,
     .folders = kPhi3Folders},
};

}  // namespace kvik::families
