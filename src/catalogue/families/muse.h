#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// One of four layers has full attention, without RoPE.
inline constexpr FolderName kMuseNames[] = {
    {kFfnNorm, "pre_feedforward_layernorm.weight"},
    {kOutputGate, "self_attn.gate_proj.weight"},
};
inline constexpr FolderKey kMuseKeys[] = {{"output_multiplier", "logit_scale"}};
inline constexpr FolderType kMuseGlimmerFolders[] = {
    {.model_type = "muse_glimmer_text",
     .multimodal_type = "muse_glimmer",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128,
                     "sliding_window": 2048, "final_logit_softcapping": 20.0,
                     "qk_scale_factor": 3.87, "logit_scale": 0.19611613513818404})",
     .keys = kMuseKeys,
     .fixed = R"({"attention_bias": false, "post_norm_eps": 1e-8})",
     .window = FolderWindow::kListed,
     .has_zero_centered_norms = true,
     .is_last_norm_centered = false,
     .has_plain_qk_norm = true,
     .names = kMuseNames},
};

inline constexpr Family kMuseFamilies[] = {
    {.name = "muse-glimmer",
     .attention = {.qk_norm = QkNorm::kHead,
                   .output_gate = OutputGate::kOwn,
                   .global_every = 4,
                   .global_at = 3,
                   .lists_windows = true,
                   .is_global_unrotated = true},
     .norms = {.post_eps = 1e-8, .of_embedding = true, .has_post_norms = true},
     .has_logit_factor = true,
     .logit_soft_cap = 20,
     .folders = kMuseGlimmerFolders},
};

}  // namespace kvik::families
