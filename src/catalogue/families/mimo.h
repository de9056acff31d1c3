#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// MiMo-V2: V is narrower than K; layers with a window have sinks and more KV heads.
Result<void> finish_mimo2(const KeyReader& keys, ModelConfig& config);
// MTP layers have the attention of layers with a window, and an MLP.
Result<LayerConfig> mimo2_mtp_layer(const KeyReader& keys, const ModelConfig& config);

inline constexpr FolderName kMimoNames[] = {{kSinks, "self_attn.attention_sink_bias"}};
inline constexpr FolderKey kMimoKeys[] = {{"layernorm_epsilon", "rms_norm_eps"}};
inline constexpr FolderValue kMimoValues[] = {
    {"attention_value_scale", "attention.value_scale"},
    {"swa_rope_theta", "rope.freq_base_swa"},
};
inline constexpr auto kMimoMtpNames = with_mtp_names({{kMtpOutputNorm, "final_layernorm.weight"},
                                                      {kFfnNorm, "pre_mlp_layernorm.weight"},
                                                      {kSinks, "self_attn.attention_sink_bias"}});
inline constexpr MtpNames kMimoMtp{.head_prefix = "mtp.layers.0.",
                                   .layer_prefix = "mtp.layers.0.",
                                   .names = kMimoMtpNames,
                                   .sign = "mtp.layers.0.eh_proj.weight"};
inline constexpr FolderType kMimoFolders[] = {
    {.model_type = "mimo_v2_flash",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 192,
                     "v_head_dim": 128, "sliding_window": 129, "attention_value_scale": 0.707,
                     "norm_topk_prob": true, "num_experts_per_tok": 8,
                     "partial_rotary_factor": 0.334})",
     .keys = kMimoKeys,
     .values = kMimoValues,
     .fixed = R"({"attention_bias": false, "n_shared_experts": null,
                  "add_full_attention_sink_bias": false, "add_swa_attention_sink_bias": true})",
     .window = FolderWindow::kListed,
     .has_experts = true,
     .window_kv_factor = 2,
     .names = kMimoNames,
     .mtp = &kMimoMtp},
};

inline constexpr Family kMimoFamilies[] = {
    {.name = "mimo2",
     .attention = {.lists_heads = true,
                   .may_have_narrow_values = true,
                   .global_every = 6,
                   .global_at = 5,
                   .lists_windows = true},
     .rope = {.pairing = RopePairing::kHalves, .is_window_unscaled = true},
     .experts = ExpertTraits{.scoring = ExpertScoring::kSigmoid,
                             .n_dense_layers = 1,
                             .correction_bias = Presence::kAlways},
     .finish = finish_mimo2,
     .mtp_layer = mimo2_mtp_layer,
     .folders = kMimoFolders},
};

}  // namespace kvik::families
