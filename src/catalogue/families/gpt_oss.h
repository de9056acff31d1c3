#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kGptOssNames[] = {{kRouter, "mlp.router.weight"}};
inline constexpr FolderType kGptOssFolders[] = {
    {.model_type = "gpt_oss",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 64,
                     "sliding_window": 128, "rope_theta": 150000.0, "num_key_value_heads": 8,
                     "num_local_experts": 128, "num_experts_per_tok": 4})",
     .window = FolderWindow::kStated,
     .has_experts = true,
     .stacks = ExpertStacks::kInterleaved,
     .names = kGptOssNames},
};

inline constexpr Family kGptOssFamilies[] = {
    {.name = "gpt-oss",
     .activation = Activation::kClampedSwish,
     .attention = {.qkv_bias = Presence::kAlways,
                   .output_bias = Presence::kAlways,
                   .has_sinks = true,
                   .global_every = 2,
                   .global_at = 1},
     .rope = {.pairing = RopePairing::kHalves, .is_yarn_whole = false},
     .norms = {.is_ffn_norm_post_attention = true},
     .experts = ExpertTraits{.has_score_bias = true, .has_biases = true},
     .folders = kGptOssFolders},
};

}  // namespace kvik::families
