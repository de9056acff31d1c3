#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

Result<void> finish_apertus(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderName kApertusNames[] = {
    {kAttentionNorm, "attention_layernorm.weight"},
    {kFfnNorm, "feedforward_layernorm.weight"},
};
inline constexpr FolderType kApertusFolders[] = {
    {.model_type = "apertus",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 12e6})",
     .fixed = R"({"attention_bias": false})",
     .names = kApertusNames},
};

inline constexpr Family kApertusFamilies[] = {
    {.name = "apertus",
     .activation = Activation::kXielu,
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .finish = finish_apertus,
     .folders = kApertusFolders},
};

}  // namespace kvik::families
