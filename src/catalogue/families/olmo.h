#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kOlmo2Folders[] = {
    {.model_type = "olmo2", .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})"},
};

inline constexpr Family kOlmoFamilies[] = {
    {.name = "olmo2",
     .attention = {.qk_norm = QkNorm::kRow},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_pre_norms = false, .has_post_norms = true},
     .folders = kOlmo2Folders},
};

}  // namespace kvik::families
