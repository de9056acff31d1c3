#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Attention and MLP of a layer read one layer norm of its input. In Command R7B one of four layers
// has full attention, without RoPE.
inline constexpr std::string_view kCohereFixed =
    R"({"attention_bias": false, "use_qk_norm": false, "use_parallel_block": true,
        "use_gated_activation": true, "use_parallel_embedding": false})";
inline constexpr FolderType kCohereFolders[] = {
    {.model_type = "cohere",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 5e5,
                     "logit_scale": 0.0625})",
     .fixed = kCohereFixed,
     .is_interleaved = true},
};
inline constexpr FolderType kCohere2Folders[] = {
    {.model_type = "cohere2",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 1e4,
                     "logit_scale": 0.0625, "head_dim": 128, "sliding_window": 4096})",
     .fixed = kCohereFixed,
     .window = FolderWindow::kListed,
     .is_interleaved = true},
};

inline constexpr Family kCohereFamilies[] = {
    {.name = "command-r",
     .norms = {.kind = NormKind::kLayer, .is_shared = true},
     .has_parallel_halves = true,
     .has_logit_factor = true,
     .folders = kCohereFolders},
    {.name = "cohere2",
     .attention =
         {.global_every = 4, .global_at = 3, .lists_windows = true, .is_global_unrotated = true},
     .norms = {.kind = NormKind::kLayer, .is_shared = true},
     .has_parallel_halves = true,
     .has_logit_factor = true,
     .folders = kCohere2Folders},
};

}  // namespace kvik::families
