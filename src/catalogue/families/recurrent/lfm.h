#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kLfm2Names[] = {
    {kEmbeddingsNorm, "embedding_norm.weight"},
    {kAttentionNorm, "operator_norm.weight"},
    {kFfnNorm, "ffn_norm.weight"},
    {kQNorm, "self_attn.q_layernorm.weight"},
    {kKNorm, "self_attn.k_layernorm.weight"},
    {kAttentionOutput, "self_attn.out_proj.weight"},
    {kConvIn, "conv.in_proj.weight"},
    {kConvWeights, "conv.conv.weight"},
    {kConvOutput, "conv.out_proj.weight"},
    {kGate, "feed_forward.w1.weight"},
    {kUp, "feed_forward.w3.weight"},
    {kDown, "feed_forward.w2.weight"},
    {kRouter, "feed_forward.gate.weight"},
    {kCorrectionBias, "feed_forward.expert_bias"},
    {kExpertGate, "feed_forward.experts.{}.w1.weight"},
    {kExpertUp, "feed_forward.experts.{}.w3.weight"},
    {kExpertDown, "feed_forward.experts.{}.w2.weight"},
};
inline constexpr FolderType kLfm2Folders[] = {
    {.model_type = "lfm2",
     .multimodal_type = "lfm2_vl",
     .defaults = R"({"norm_eps": 1e-5, "rope_theta": 1e6, "conv_L_cache": 3,
                     "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0,
                     "block_auto_adjust_ff_dim": true})",
     .names = kLfm2Names},
};
inline constexpr FolderType kLfm2MoeFolders[] = {
    {.model_type = "lfm2_moe",
     .defaults = R"({"norm_eps": 1e-5, "rope_theta": 1e6, "conv_L_cache": 3,
                     "norm_topk_prob": true, "num_dense_layers": 2})",
     .has_experts = true,
     .names = kLfm2Names,
     .gate_up_stack = "feed_forward.experts.gate_up_proj",
     .down_stack = "feed_forward.experts.down_proj"},
};

// LFM3: norms after each half of a layer, an output gate per head, and some layers with a window.
inline constexpr FolderName kLfm3Names[] = {
    {kEmbeddingsNorm, "embedding_norm.weight"},
    {kAttentionNorm, "operator_norm.weight"},
    {kPostAttentionNorm, "post_operator_norm.weight"},
    {kFfnNorm, "ffn_norm.weight"},
    {kPostFfnNorm, "post_ffn_norm.weight"},
    {kOutputGate, "self_attn.gate_proj.weight"},
    {kConvIn, "conv.in_proj.weight"},
    {kConvWeights, "conv.conv.weight"},
    {kConvOutput, "conv.out_proj.weight"},
    {kGate, "feed_forward.w1.weight"},
    {kUp, "feed_forward.w3.weight"},
    {kDown, "feed_forward.w2.weight"},
};
inline constexpr FolderType kLfm3Folders[] = {
    {.model_type = "lfm3",
     .multimodal_type = "lfm3_vl",
     .defaults = R"({"norm_eps": 1e-5, "conv_L_cache": 7, "head_dim": 128, "sliding_window": 256,
                     "block_auto_adjust_ff_dim": false, "tie_word_embeddings": true})",
     .fixed = R"({"attention_bias": false, "use_sandwich_norm": true, "use_attention_gate": true})",
     .window = FolderWindow::kListed,
     .names = kLfm3Names},
};

inline constexpr Family kLfmFamilies[] = {
    {.name = "lfm2",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.is_last_norm_embeddings = true},
     .recurrence = {.kind = Recurrence::kShortConv},
     .folders = kLfm2Folders},
    {.name = "lfm2moe",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.is_last_norm_embeddings = true},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .recurrence = {.kind = Recurrence::kShortConv},
     .folders = kLfm2MoeFolders},
    {.name = "lfm3",
     .attention = {.qk_norm = QkNorm::kHead,
                   .output_gate = OutputGate::kPerHead,
                   .lists_windows = true},
     .rope = {.pairing = RopePairing::kHalves, .is_window_unscaled = true},
     .norms = {.has_post_norms = true, .is_last_norm_embeddings = true},
     .recurrence = {.kind = Recurrence::kShortConv},
     .folders = kLfm3Folders},
};

}  // namespace kvik::families
