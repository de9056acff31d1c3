#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kArceeFolders[] = {
    {.model_type = "arcee", .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})"},
};

inline constexpr Family kArceeFamilies[] = {
    {.name = "arcee",
     .activation = Activation::kReluSquared,
     .attention = {.qkv_bias = Presence::kOptional, .output_bias = Presence::kOptional},
     .mlp_bias = Presence::kOptional,
     .folders = kArceeFolders},
};

}  // namespace kvik::families
