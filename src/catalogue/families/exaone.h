#pragma once

#include "catalogue/families/mtp_layers.h"
#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"
#include "catalogue/key_reader.h"

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
inline constexpr FolderValue kExaoneMoeValues[] = {{"kvik_mtp_is_windowed", "mtp.is_windowed"}};
// The MTP layer has an MLP, and the attention of the first layer unless a key says otherwise.
inline Result<LayerConfig> exaone_moe_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  TRY_ASSIGN(const bool is_windowed,
             mtp_is_windowed(keys, config, config.layers.front().attention().window > 0));
  return LayerConfig{.mixer = attention_with(config, is_windowed ? Span::kWindow : Span::kAll),
                     .feed_forward = MlpConfig{.ffn_dim = config.ffn_dim}};
}

inline constexpr FolderType kExaoneMoeFolders[] = {
    {.model_type = "exaone_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 1,
                     "n_shared_experts": 1})",
     .keys = kExaoneMoeKeys,
     .values = kExaoneMoeValues,
     .window = FolderWindow::kListed,
     .has_experts = true,
     .names = kExaoneMoeNames,
     .has_mtp_types = true,
     .mtp = &kSeparateMtpNames},
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
     .mtp_layer = exaone_moe_mtp_layer,
     .folders = kExaoneMoeFolders},
};

}  // namespace kvik::families
