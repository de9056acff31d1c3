#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Attention and MLP of a layer read one layer norm of its input. In Command R7B one of four layers
// has full attention, without RoPE.
inline constexpr std::string_view kCohereFixed =
    R"({"attention_bias": false, "use_parallel_block": true, "use_gated_activation": true,
        "use_parallel_embedding": false})";
inline constexpr FolderType kCohereFolders[] = {
    {.model_type = "cohere",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 5e5,
                     "logit_scale": 0.0625})",
     .fixed = kCohereFixed,
     .is_interleaved = true},
};
inline constexpr FolderType kCohere2Folders[] = {
    {.model_type = "cohere2",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 1e4,
                     "logit_scale": 0.0625, "head_dim": 128, "sliding_window": 4096})",
     .fixed = kCohereFixed,
     .window = FolderWindow::kListed,
     .is_interleaved = true},
};

// Command A+: the first layers may have an MLP and full attention with RoPE. The output of the
// shared experts is averaged with that of the others.
Result<void> finish_cohere2_moe(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderKey kCohere2MoeKeys[] = {
    {"intermediate_size", "moe_intermediate_size"},
    {.name = "prefix_dense_intermediate_size", .usual = "intermediate_size", .replaces = true},
    {"num_shared_experts", "n_shared_experts"},
    {"expert_selection_fn", "scoring_func"},
};
inline constexpr FolderType kCohere2MoeFolders[] = {
    {.model_type = "cohere2_moe",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 1e4,
                     "logit_scale": 0.0625, "head_dim": 128, "sliding_window": 4096,
                     "num_experts": 8, "num_experts_per_tok": 2, "scoring_func": "softmax",
                     "norm_topk_prob": true})",
     .keys = kCohere2MoeKeys,
     .fixed = R"({"attention_bias": false, "shared_expert_combination_strategy": "average",
                  "prefix_dense_sliding_window_pattern": 1})",
     .window = FolderWindow::kListed,
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
};

inline constexpr Family kCohereFamilies[] = {
    {.name = "command-r",
     .attention = {.qk_norm = QkNorm::kLayerPerHead, .is_qk_norm_optional = true},
     .norms = {.kind = NormKind::kLayer, .is_shared = true},
     .has_parallel_halves = true,
     .has_logit_factor = true,
     .folders = kCohereFolders},
    {.name = "cohere2",
     .attention =
         {.global_every = 4, .global_at = 3, .lists_windows = true, .is_global_unrotated = true},
     .norms = {.kind = NormKind::kLayer, .is_shared = true},
     .has_parallel_halves = true,
     .has_logit_factor = true,
     .folders = kCohere2Folders},
    {.name = "cohere2moe",
     .attention =
         {.global_every = 4, .global_at = 3, .lists_windows = true, .is_global_unrotated = true},
     .norms = {.kind = NormKind::kLayer, .is_shared = true},
     .experts = ExpertTraits{.scoring = ExpertScoring::kSigmoid},
     .has_parallel_halves = true,
     .has_logit_factor = true,
     .finish = finish_cohere2_moe,
     .folders = kCohere2MoeFolders},
};

}  // namespace kvik::families
