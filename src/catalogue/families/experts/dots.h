#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kDots1Folders[] = {
    {.model_type = "dots1",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                     "sliding_window": 4096})",
     .window = FolderWindow::kListed,
     .has_experts = true,
     .names = kSharedExpertsNames},
};

inline constexpr Family kDotsFamilies[] = {
    {.name = "dots1",
     .attention = {.qk_norm = QkNorm::kHead, .lists_windows = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{.normalizes = false,
                             .scoring = ExpertScoring::kSigmoid,
                             .correction_bias = Presence::kOptional},
     .folders = kDots1Folders},
};

}  // namespace kvik::families
