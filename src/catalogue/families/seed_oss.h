#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kSeedOssFolders[] = {
    {.model_type = "seed_oss",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})"},
};

inline constexpr Family kSeedOssFamilies[] = {
    {.name = "seed_oss",
     .attention = {.qkv_bias = Presence::kOptional, .output_bias = Presence::kOptional},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .is_ffn_norm_post_attention = true},
     .mlp_bias = Presence::kOptional,
     .folders = kSeedOssFolders},
};

}  // namespace kvik::families
