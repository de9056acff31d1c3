#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Every fourth layer has no RoPE.
inline constexpr FolderType kSmolLm3Folders[] = {
    {.model_type = "smollm3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "rope_theta": 2e6,
                     "num_key_value_heads": 4})",
     .window = FolderWindow::kListed},
};

inline constexpr Family kSmolLmFamilies[] = {
    {.name = "smollm3",
     .attention = {.qkv_bias = Presence::kOptional,
                   .output_bias = Presence::kOptional,
                   .lists_windows = true,
                   .unrotated_every = 4},
     .norms = {.eps = 1e-6},
     .mlp_bias = Presence::kOptional,
     .folders = kSmolLm3Folders},
};

}  // namespace kvik::families
