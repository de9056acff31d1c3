#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

Result<void> finish_mistral3(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderType kMistral3Folders[] = {
    {.model_type = "ministral3",
     .multimodal_type = "mistral3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128})"},
};

inline constexpr Family kMistralFamilies[] = {
    {.name = "mistral3", .finish = finish_mistral3, .folders = kMistral3Folders},
};

}  // namespace kvik::families
