#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kErnie45Folders[] = {
    {.model_type = "ernie4_5",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 5e5,
                     "head_dim": 128})",
     .fixed = R"({"use_bias": false})",
     .is_interleaved = true},
};
inline constexpr auto kErnie45MoeNames =
    with_shared_experts({{kCorrectionBias, "mlp.moe_statics.e_score_correction_bias"}});
inline constexpr FolderKey kErnie45MoeKeys[] = {
    {"moe_num_experts", "num_experts"},
    {"moe_k", "num_experts_per_tok"},
    {"moe_num_shared_experts", "n_shared_experts"},
    {"moe_layer_start_index", "first_k_dense_replace"},
};
// An MTP layer has an MLP, and no norm before the output head.
inline constexpr FolderName kErnie45MtpNames[] = {
    {kMtpEmbeddingNorm, "mtp_emb_norm.0.weight"},
    {kMtpHiddenNorm, "mtp_hidden_norm.0.weight"},
    {kMtpProjection, "mtp_linear_proj.0.weight"},
};
inline constexpr MtpNames kErnie45Mtp{
    .layer_prefix = "mtp_block.0.", .names = kErnie45MtpNames, .sign = "mtp_linear_proj.0.weight"};
inline constexpr FolderType kErnie45MoeFolders[] = {
    {.model_type = "ernie4_5_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 5e5,
                     "num_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
                     "first_k_dense_replace": 1})",
     .keys = kErnie45MoeKeys,
     .fixed = R"({"moe_layer_interval": 1, "use_bias": false})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kErnie45MoeNames,
     .mtp = &kErnie45Mtp},
};

inline constexpr Family kErnieFamilies[] = {
    {.name = "ernie4_5", .folders = kErnie45Folders},
    {.name = "ernie4_5-moe",
     .experts = ExpertTraits{.correction_bias = Presence::kOptional},
     .mtp_layer = dense_mtp_layer,
     .lacks_mtp_output_norm = true,
     .folders = kErnie45MoeFolders},
};

}  // namespace kvik::families
