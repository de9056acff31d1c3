#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

Result<void> finish_gemma2(const KeyReader& keys, ModelConfig& config);
Result<void> finish_gemma3(const KeyReader& keys, ModelConfig& config);
Result<void> finish_gemma_embedding(const KeyReader& keys, ModelConfig& config);
Result<void> finish_gemma3n(const KeyReader& keys, ModelConfig& config);
Result<void> finish_gemma4(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderType kGemma1Folders[] = {
    {.model_type = "gemma",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256})",
     .fixed = R"({"attention_bias": false})",
     .has_zero_centered_norms = true},
};
inline constexpr FolderName kGemmaNames[] = {{kFfnNorm, "pre_feedforward_layernorm.weight"}};
inline constexpr FolderType kGemma2Folders[] = {
    {.model_type = "gemma2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256,
                     "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})",
     .window = FolderWindow::kStated,
     .has_zero_centered_norms = true,
     .has_query_scalar = true,
     .names = kGemmaNames},
};
inline constexpr FolderType kGemma3Folders[] = {
    {.model_type = "gemma3_text",
     .multimodal_type = "gemma3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256, "rope_theta": 1e6,
                     "rope_local_base_freq": 1e4, "sliding_window_pattern": 6,
                     "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
                     "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
                     "max_position_embeddings": 131072})",
     .window = FolderWindow::kStated,
     .has_zero_centered_norms = true,
     .has_query_scalar = true,
     .names = kGemmaNames},
};
// Folders of Gemma 3 whose attention is bidirectional (EmbeddingGemma).
inline constexpr FolderType kEmbeddingGemmaFolders[] = {
    {.model_type = "gemma3_text (bidirectional)",
     .defaults = kGemma3Folders[0].defaults,
     .window = FolderWindow::kStated,
     .has_zero_centered_norms = true,
     .has_query_scalar = true,
     .names = kGemmaNames,
     .is_encoder = true,
     .has_dense_modules = true},
};
inline constexpr FolderValue kGemma3nValues[] = {
    {"altup_num_inputs", "altup.num_inputs"},
    {"altup_active_idx", "altup.active_idx"},
    {"laurel_rank", "laurel.rank"},
    {"vocab_size_per_layer_input", "vocab_size_per_layer_input"},
};
inline constexpr FolderType kGemma3nFolders[] = {
    {.model_type = "gemma3n_text",
     .multimodal_type = "gemma3n",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 512, "num_key_value_heads": 2, "num_attention_heads": 8,
                     "vocab_size": 262400, "vocab_size_per_layer_input": 262144,
                     "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 35,
                     "hidden_size_per_layer_input": 256, "max_position_embeddings": 32768,
                     "rope_theta": 1e6, "final_logit_softcapping": 30.0, "altup_num_inputs": 4,
                     "altup_active_idx": 0, "laurel_rank": 64, "num_kv_shared_layers": 15})",
     .values = kGemma3nValues,
     .fixed = R"({"altup_correct_scale": true, "attention_bias": false})",
     .window = FolderWindow::kStated,
     .names = kGemmaNames},
};
inline constexpr FolderName kGemma4Names[] = {
    {kFfnNorm, "pre_feedforward_layernorm.weight"},
    {kRouter, "router.proj.weight"},
};
inline constexpr FolderType kGemma4Folders[] = {
    {.model_type = "gemma4_text",
     .multimodal_type = "gemma4",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "global_head_dim": 512, "sliding_window": 512, "num_key_value_heads": 4,
                     "num_attention_heads": 8, "vocab_size": 262144, "hidden_size": 2304,
                     "intermediate_size": 9216, "num_hidden_layers": 30,
                     "hidden_size_per_layer_input": 256, "max_position_embeddings": 131072,
                     "enable_moe_block": false,
                     "rope_parameters": {"full_attention": {"rope_type": "proportional",
                     "partial_rotary_factor": 0.25, "rope_theta": 1e6}}})",
     .window = FolderWindow::kStated,
     .has_experts = true,
     .names = kGemma4Names,
     .gate_up_stack = "experts.gate_up_proj",
     .down_stack = "experts.down_proj",
     .ends_with_global_layer = true},
    {.model_type = "gemma4_unified_text",
     .multimodal_type = "gemma4_unified",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "global_head_dim": 512, "sliding_window": 1024, "num_key_value_heads": 4,
                     "num_attention_heads": 8, "vocab_size": 262144, "hidden_size": 2304,
                     "intermediate_size": 9216, "num_hidden_layers": 30,
                     "max_position_embeddings": 262144,
                     "rope_parameters": {"full_attention": {"rope_type": "proportional",
                     "partial_rotary_factor": 0.25, "rope_theta": 1e6}}})",
     .window = FolderWindow::kStated,
     .names = kGemma4Names,
     .ends_with_global_layer = true},
};

inline constexpr Family kGemmaFamilies[] = {
    {.name = "gemma",
     .activation = Activation::kGeluTanh,
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .scales_embedding = true,
     .folders = kGemma1Folders},
    {.name = "gemma2",
     .activation = Activation::kGeluTanh,
     .attention = {.soft_cap = 50, .global_every = 2, .global_at = 1},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_post_norms = true},
     .scales_embedding = true,
     .logit_soft_cap = 30,
     .finish = finish_gemma2,
     .folders = kGemma2Folders},
    {.name = "gemma3",
     .activation = Activation::kGeluTanh,
     .attention = {.qk_norm = QkNorm::kHead, .global_every = 6, .global_at = 5},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_post_norms = true},
     .scales_embedding = true,
     .finish = finish_gemma3,
     .folders = kGemma3Folders},
    {.name = "gemma-embedding",
     .activation = Activation::kGeluTanh,
     .attention = {.qk_norm = QkNorm::kHead, .global_every = 6, .global_at = 5},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_post_norms = true},
     .scales_embedding = true,
     .encoder = EncoderConfig{.has_rms_norms = true},
     .finish = finish_gemma_embedding,
     .folders = kEmbeddingGemmaFolders},
    {.name = "gemma3n",
     .activation = Activation::kGeluTanh,
     .attention =
         {.qk_norm = QkNorm::kHead, .is_unscaled = true, .global_every = 5, .global_at = 4},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_post_norms = true},
     .scales_embedding = true,
     .logit_soft_cap = 30,
     .has_layer_kinds = true,
     .finish = finish_gemma3n,
     .folders = kGemma3nFolders},
    {.name = "gemma4",
     .activation = Activation::kGeluTanh,
     .attention =
         {.qk_norm = QkNorm::kHead, .is_unscaled = true, .global_every = 6, .global_at = 5},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .has_post_norms = true},
     .experts = ExpertTraits{},
     .scales_embedding = true,
     .logit_soft_cap = 30,
     .has_layer_kinds = true,
     .finish = finish_gemma4,
     .folders = kGemma4Folders},
};

}  // namespace kvik::families
