#pragma once

#include "catalogue/families/mistral.h"
#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Routers of V2 score with softmax, those of V3 and its successors with sigmoid.
inline constexpr FolderType kDeepseek2Folders[] = {
    {.model_type = "deepseek_v2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                     "scoring_func": "softmax"})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "deepseek_v3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                     "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "kimi_k2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.827, "first_k_dense_replace": 1,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "glm4_moe_lite",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 1.8, "first_k_dense_replace": 1,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "youtu",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true})",
     .fixed = R"({"rope_interleave": true, "attention_bias": false})",
     .is_interleaved = true},
};

// Files of Mistral Small 4 have this architecture or deepseek2.
inline constexpr FolderType kMistral4Folders[] = {
    {.model_type = "mistral4",
     .multimodal_type = "mistral3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                     "scoring_func": "softmax", "n_group": 1, "topk_group": 1})",
     .fixed = R"({"rope_interleave": true, "attention_bias": false})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
};

inline constexpr Family kDeepseekFamilies[] = {
    {.name = "deepseek2",
     .attention = {.is_latent = true},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{.normalizes = false, .correction_bias = Presence::kOptional},
     .finish = finish_mistral3,
     .mtp_layer = usual_mtp_layer,
     .folders = kDeepseek2Folders},
    {.name = "mistral4",
     .attention = {.is_latent = true},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{.normalizes = false, .correction_bias = Presence::kOptional},
     .finish = finish_mistral3,
     .folders = kMistral4Folders},
};

}  // namespace kvik::families
