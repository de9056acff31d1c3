#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/families/sparse/indexer_values.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// DeepSeek V3.2 and GLM 5: MLA over the tokens that an indexer selects (IndexerConfig). In GLM 5.2,
// most layers share the selection of an earlier layer.
Result<void> finish_deepseek32(const KeyReader& keys, ModelConfig& config);
Result<void> finish_glm_dsa(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderType kDeepseek32Folders[] = {
    {.model_type = "deepseek_v32",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                     "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4,
                     "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048})",
     .values = kIndexerValues,
     .fixed = R"({"attention_bias": false})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
};
inline constexpr FolderType kGlmDsaFolders[] = {
    {.model_type = "glm_moe_dsa",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1,
                     "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048})",
     .values = kIndexerValues,
     .fixed = R"({"attention_bias": false})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames,
     .has_shared_indexers = true},
};

inline constexpr Family kDeepseekSparseFamilies[] = {
    {.name = "deepseek32",
     .attention = {.is_latent = true},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kOptional},
     .finish = finish_deepseek32,
     .mtp_layer = usual_mtp_layer,
     .folders = kDeepseek32Folders},
    {.name = "glm-dsa",
     .attention = {.is_latent = true},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kOptional},
     .finish = finish_glm_dsa,
     .mtp_layer = usual_mtp_layer,
     .folders = kGlmDsaFolders},
};

}  // namespace kvik::families
