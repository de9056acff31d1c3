#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Small models have full attention and RoPE in every layer; in the others one of four layers has
// full attention, without RoPE.
inline constexpr FolderType kExaone4Folders[] = {
    {.model_type = "exaone4",
     .multimodal_type = "exaone4_5",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .window = FolderWindow::kListed},
};
inline constexpr auto kExaoneMoeNames =
    with_shared_experts({{kCorrectionBias, "mlp.e_score_correction_bias"}});
inline constexpr FolderKey kExaoneMoeKeys[] = {{"num_shared_experts", "n_shared_experts"}};
inline constexpr FolderType kExaoneMoeFolders[] = {
    {.model_type = "exaone_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 1,
                     "n_shared_experts": 1})",
     .keys = kExaoneMoeKeys,
     .window = FolderWindow::kListed,
     .has_experts = true,
     .names = kExaoneMoeNames},
};

inline constexpr Family kExaoneFamilies[] = {
    {.name = "exaone4",
     .attention = {.qk_norm = QkNorm::kHead,
                   .global_every = 4,
                   .global_at = 3,
                   .lists_windows = true,
                   .is_global_unrotated = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.has_pre_norms = false, .has_post_norms = true},
     .folders = kExaone4Folders},
    {.name = "exaone-moe",
     .attention = {.qk_norm = QkNorm::kHead,
                   .global_every = 4,
                   .global_at = 3,
                   .lists_windows = true,
                   .is_global_unrotated = true},
     .rope = {.pairing = RopePairing::kHalves},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kOptional},
     .folders = kExaoneMoeFolders},
};

}  // namespace kvik::families
