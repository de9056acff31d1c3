#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kMiniCpm5MoeFolders[] = {
    {.model_type = "minicpm5_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "rope_theta": 1e4,
                     "norm_topk_prob": true, "n_group": 1, "topk_group": 1,
                     "routed_scaling_factor": 1.0, "n_shared_experts": 1})",
     .fixed = R"({"use_gated_attention": true, "attention_bias": false,
                  "attention_output_bias": false, "mlp_bias": false})",
     .has_experts = true,
     .names = kSharedExpertsNames},
};

inline constexpr Family kMiniCpmFamilies[] = {
    {.name = "minicpm5moe",
     .attention = {.output_gate = OutputGate::kInQ},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .folders = kMiniCpm5MoeFolders},
};

}  // namespace kvik::families
