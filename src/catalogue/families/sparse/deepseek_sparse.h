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

// Returns a folder type with the parts that both families have.
consteval FolderType sparse_folder(std::string_view model_type, std::string_view defaults) {
  return {.model_type = model_type,
          .defaults = defaults,
          .values = kIndexerValues,
          .fixed = R"({"attention_bias": false})",
          .has_experts = true,
          .is_interleaved = true,
          .names = kSharedExpertsNames};
}

consteval FolderType with_shared_indexers(FolderType type) {
  type.has_shared_indexers = true;
  return type;
}

inline constexpr FolderType kDeepseek32Folders[] = {sparse_folder(
    "deepseek_v32", R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                        "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                        "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4,
                        "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048})")};
inline constexpr FolderType kGlmDsaFolders[] = {with_shared_indexers(sparse_folder(
    "glm_moe_dsa", R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                       "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                       "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1,
                       "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048})"))};

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
