#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// OLMo 3 has windows in three of four layers, and its YaRN applies to the others.
inline constexpr FolderType kOlmo2Folders[] = {
    {.model_type = "olmo2", .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})"},
    {.model_type = "olmo3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 5e5,
                     "sliding_window": 4096})",
     .window = FolderWindow::kListed},
};
inline constexpr FolderType kOlmoeFolders[] = {
    {.model_type = "olmoe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": false,
                     "num_experts": 64, "num_experts_per_tok": 8})",
     .fixed = R"({"clip_qkv": null})",
     .has_experts = true},
};

inline constexpr Family kOlmoFamilies[] = {
    {.name = "olmo2",
     .attention =
         {.qk_norm = QkNorm::kRow, .global_every = 4, .global_at = 3, .lists_windows = true},
     .rope = {.pairing = RopePairing::kHalves, .is_window_unscaled = true},
     .norms = {.eps = 1e-6, .has_pre_norms = false, .has_post_norms = true},
     .folders = kOlmo2Folders},
    {.name = "olmoe",
     .attention = {.qk_norm = QkNorm::kRow},
     .rope = {.pairing = RopePairing::kHalves},
     .experts = ExpertTraits{.normalizes = false},
     .folders = kOlmoeFolders},
};

}  // namespace kvik::families
