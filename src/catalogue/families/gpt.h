#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Models with layer norms, and biases everywhere.

// GPT-NeoX, Pythia, RedPajama-INCITE: usually attention and MLP of a layer read its input.
inline constexpr FolderName kGptNeoxNames[] = {
    {kEmbedding, "embed_in.weight"},
    {kOutputNorm, "final_layer_norm.weight"},
    {kOutputNormBias, "final_layer_norm.bias"},
    {kQkv, "attention.query_key_value.weight"},
    {kQkvBias, "attention.query_key_value.bias"},
    {kAttentionOutput, "attention.dense.weight"},
    {kAttentionOutputBias, "attention.dense.bias"},
    {kUp, "mlp.dense_h_to_4h.weight"},
    {kUpBias, "mlp.dense_h_to_4h.bias"},
    {kDown, "mlp.dense_4h_to_h.weight"},
    {kDownBias, "mlp.dense_4h_to_h.bias"},
};
inline constexpr FolderKey kGptNeoxKeys[] = {{"rotary_pct", "partial_rotary_factor"},
                                             {"rotary_emb_base", "rope_theta"}};
inline constexpr FolderValue kGptNeoxValues[] = {
    {"use_parallel_residual", "use_parallel_residual"}};
inline constexpr FolderType kGptNeoxFolders[] = {
    {.model_type = "gpt_neox",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": false,
                     "partial_rotary_factor": 0.25, "max_position_embeddings": 2048})",
     .keys = kGptNeoxKeys,
     .values = kGptNeoxValues,
     .fixed = R"({"attention_bias": true})",
     .has_qkv_by_head = true,
     .names = kGptNeoxNames},
};

// GPT-2: learned positions, no RoPE. Its folders have the matrices of the layers transposed.
inline constexpr FolderName kGpt2Names[] = {
    {kEmbedding, "wte.weight"},
    {kPositions, "wpe.weight"},
    {kOutputNorm, "ln_f.weight"},
    {kOutputNormBias, "ln_f.bias"},
    {kAttentionNorm, "ln_1.weight"},
    {kAttentionNormBias, "ln_1.bias"},
    {kQkv, "attn.c_attn.weight"},
    {kQkvBias, "attn.c_attn.bias"},
    {kAttentionOutput, "attn.c_proj.weight"},
    {kAttentionOutputBias, "attn.c_proj.bias"},
    {kFfnNorm, "ln_2.weight"},
    {kFfnNormBias, "ln_2.bias"},
    {kUp, "mlp.c_fc.weight"},
    {kUpBias, "mlp.c_fc.bias"},
    {kDown, "mlp.c_proj.weight"},
    {kDownBias, "mlp.c_proj.bias"},
};
inline constexpr FolderKey kGpt2Keys[] = {
    {"n_embd", "hidden_size"},         {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"}, {"n_positions", "max_position_embeddings"},
    {"n_inner", "intermediate_size"},  {"activation_function", "hidden_act"},
};
inline constexpr FolderType kGpt2Folders[] = {
    {.model_type = "gpt2",
     .defaults = R"({"layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})",
     .keys = kGpt2Keys,
     .usual_ffn_factor = 4,
     .fixed = R"({"scale_attn_weights": true, "scale_attn_by_inverse_layer_idx": false,
                  "add_cross_attention": false})",
     .has_transposed_matrices = true,
     .names = kGpt2Names,
     .layers = "h."},
};

// StarCoder 2 has RoPE, and a tensor each for Q, K and V.
inline constexpr FolderName kStarcoder2Names[] = {
    {kUp, "mlp.c_fc.weight"},
    {kUpBias, "mlp.c_fc.bias"},
    {kDown, "mlp.c_proj.weight"},
    {kDownBias, "mlp.c_proj.bias"},
};
inline constexpr FolderKey kStarcoder2Keys[] = {{"norm_epsilon", "layer_norm_eps"}};
inline constexpr FolderType kStarcoder2Folders[] = {
    {.model_type = "starcoder2",
     .defaults = R"({"layer_norm_eps": 1e-5, "tie_word_embeddings": true})",
     .keys = kStarcoder2Keys,
     .fixed = R"({"use_bias": true, "norm_type": "layer_norm", "mlp_type": "default"})",
     .window = FolderWindow::kStated,
     .names = kStarcoder2Names},
};

// StarCoder 1 and SantaCoder: GPT-2 with one KV head.
inline constexpr FolderType kBigcodeFolders[] = {
    {.model_type = "gpt_bigcode",
     .defaults = R"({"layer_norm_epsilon": 1e-5, "tie_word_embeddings": true,
                     "num_key_value_heads": 1})",
     .keys = kGpt2Keys,
     .usual_ffn_factor = 4,
     .fixed = R"({"multi_query": true, "scale_attn_weights": true, "add_cross_attention": false})",
     .names = kGpt2Names,
     .layers = "h."},
};

inline constexpr AttentionTraits kGpt2Attention = {.qkv_bias = Presence::kAlways,
                                                   .output_bias = Presence::kAlways,
                                                   .is_fused = true,
                                                   .unrotated_every = 1};

inline constexpr Family kGptFamilies[] = {
    {.name = "gptneox",
     .activation = Activation::kGelu,
     .attention = {.qkv_bias = Presence::kAlways,
                   .output_bias = Presence::kAlways,
                   .is_fused = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias},
     .has_parallel_halves = true,
     .mlp_bias = Presence::kAlways,
     .folders = kGptNeoxFolders},
    {.name = "gpt2",
     .activation = Activation::kPlainGeluTanh,
     .attention = kGpt2Attention,
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias},
     .has_positions = true,
     .mlp_bias = Presence::kAlways,
     .folders = kGpt2Folders},
    {.name = "starcoder",
     .activation = Activation::kPlainGeluTanh,
     .attention = kGpt2Attention,
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias},
     .has_positions = true,
     .mlp_bias = Presence::kAlways,
     .folders = kBigcodeFolders},
    {.name = "starcoder2",
     .activation = Activation::kPlainGeluTanh,
     .attention = {.qkv_bias = Presence::kAlways, .output_bias = Presence::kAlways},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.kind = NormKind::kLayerWithBias},
     .mlp_bias = Presence::kAlways,
     .folders = kStarcoder2Folders},
};

}  // namespace kvik::families
