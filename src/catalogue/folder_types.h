#pragma once

#include <string_view>

#include "catalogue/family.h"

// The types of folders of each family, for its entry in families.cpp. Defaults are those of the
// configuration classes of transformers 4 and 5.
namespace kvik::folder_types {

using enum TensorRole;

inline constexpr FolderName kMixtralNames[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
};
inline constexpr FolderName kGemmaNames[] = {{kFfnNorm, "pre_feedforward_layernorm.weight"}};
inline constexpr FolderName kGraniteMoeNames[] = {
    {kRouter, "block_sparse_moe.router.layer.weight"},
};
inline constexpr FolderName kPhiNames[] = {{kUp, "mlp.gate_up_proj.weight"}};

inline constexpr FolderType kLlamaFolders[] = {
    {.model_type = "llama", .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false})"},
    {.model_type = "mistral",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "sliding_window": 4096,
                     "num_key_value_heads": 8})",
     .window = FolderWindow::kStated},
    {.model_type = "mixtral",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 1e6,
                     "num_key_value_heads": 8})",
     .window = FolderWindow::kStated,
     .has_experts = true,
     .names = kMixtralNames,
     .gate_up_stack = "block_sparse_moe.experts.gate_up_proj",
     .down_stack = "block_sparse_moe.experts.down_proj"},
};
inline constexpr FolderType kQwen2Folders[] = {
    {.model_type = "qwen2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false})",
     .window = FolderWindow::kIfAsked},
};
inline constexpr FolderType kQwen2MoeFolders[] = {
    {.model_type = "qwen2_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = FolderWindow::kIfAsked,
     .has_experts = true},
};
inline constexpr FolderType kQwen3Folders[] = {
    {.model_type = "qwen3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .window = FolderWindow::kIfAsked},
};
inline constexpr FolderType kQwen3MoeFolders[] = {
    {.model_type = "qwen3_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = FolderWindow::kIfAsked,
     .has_experts = true},
};
// Their images and films turn by three positions; those of text are the same three times.
inline constexpr FolderType kQwen3VlFolders[] = {
    {.model_type = "qwen3_vl_text",
     .whole_type = "qwen3_vl",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})"},
};
inline constexpr FolderType kQwen3VlMoeFolders[] = {
    {.model_type = "qwen3_vl_moe_text",
     .whole_type = "qwen3_vl_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true})",
     .has_experts = true,
     .stacks = ExpertStacks::kTransposed},
};
inline constexpr FolderType kGemma2Folders[] = {
    {.model_type = "gemma2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256,
                     "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})",
     .window = FolderWindow::kStated,
     .norms_lack_one = true,
     .has_query_scalar = true,
     .names = kGemmaNames},
};
inline constexpr FolderType kGemma3Folders[] = {
    {.model_type = "gemma3_text",
     .whole_type = "gemma3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256, "rope_theta": 1e6,
                     "rope_local_base_freq": 1e4, "sliding_window_pattern": 6,
                     "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
                     "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
                     "max_position_embeddings": 131072})",
     .window = FolderWindow::kStated,
     .norms_lack_one = true,
     .has_query_scalar = true,
     .names = kGemmaNames},
};
inline constexpr FolderType kPhi3Folders[] = {
    {.model_type = "phi3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .window = FolderWindow::kStated,
     .names = kPhiNames},
};
inline constexpr FolderType kGraniteFolders[] = {
    {.model_type = "granite", .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0})"},
};
inline constexpr FolderType kGraniteMoeFolders[] = {
    {.model_type = "granitemoe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0, "num_local_experts": 8,
                     "num_experts_per_tok": 2})",
     .has_experts = true,
     .names = kGraniteMoeNames,
     .gate_up_stack = "block_sparse_moe.input_linear.weight",
     .down_stack = "block_sparse_moe.output_linear.weight"},
};
inline constexpr FolderType kOlmo2Folders[] = {
    {.model_type = "olmo2", .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})"},
};

inline constexpr FolderName kGemma4Names[] = {
    {kFfnNorm, "pre_feedforward_layernorm.weight"},
    {kRouter, "router.proj.weight"},
};
inline constexpr FolderType kGemma4Folders[] = {
    {.model_type = "gemma4_text",
     .whole_type = "gemma4",
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
     .down_stack = "experts.down_proj"},
    {.model_type = "gemma4_unified_text",
     .whole_type = "gemma4_unified",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "global_head_dim": 512, "sliding_window": 1024, "num_key_value_heads": 4,
                     "num_attention_heads": 8, "vocab_size": 262144, "hidden_size": 2304,
                     "intermediate_size": 9216, "num_hidden_layers": 30,
                     "max_position_embeddings": 262144,
                     "rope_parameters": {"full_attention": {"rope_type": "proportional",
                     "partial_rotary_factor": 0.25, "rope_theta": 1e6}}})",
     .window = FolderWindow::kStated,
     .names = kGemma4Names},
};

inline constexpr FolderName kGptOssNames[] = {{kRouter, "mlp.router.weight"}};
inline constexpr FolderName kMiniMaxNames[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kChoiceBias, "block_sparse_moe.e_score_correction_bias"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
};
inline constexpr FolderName kSharedExpertsNames[] = {
    {kSharedGate, "mlp.shared_experts.gate_proj.weight"},
    {kSharedUp, "mlp.shared_experts.up_proj.weight"},
    {kSharedDown, "mlp.shared_experts.down_proj.weight"},
};

inline constexpr FolderType kMistral3Folders[] = {
    {.model_type = "ministral3",
     .whole_type = "mistral3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128})"},
};
inline constexpr FolderType kGlm4MoeFolders[] = {
    {.model_type = "glm4_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "partial_rotary_factor": 0.5, "n_group": 1, "topk_group": 1,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
                     "n_shared_experts": 1})",
     .has_experts = true,
     .names = kSharedExpertsNames},
};
inline constexpr FolderType kMiniMaxM2Folders[] = {
    {.model_type = "minimax_m2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .has_experts = true,
     .names = kMiniMaxNames,
     .gate_up_stack = "block_sparse_moe.experts.gate_up_proj",
     .down_stack = "block_sparse_moe.experts.down_proj"},
};
inline constexpr FolderType kGptOssFolders[] = {
    {.model_type = "gpt_oss",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 64,
                     "sliding_window": 128, "rope_theta": 150000.0, "num_key_value_heads": 8,
                     "num_local_experts": 128, "num_experts_per_tok": 4})",
     .window = FolderWindow::kStated,
     .has_experts = true,
     .stacks = ExpertStacks::kInterleaved,
     .names = kGptOssNames},
};

// V2's routers score with softmax, V3's and those of its heirs with sigmoids.
inline constexpr FolderType kDeepseek2Folders[] = {
    {.model_type = "deepseek_v2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                     "scoring_func": "softmax"})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "deepseek_v3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                     "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "kimi_k2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.827, "first_k_dense_replace": 1,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
    {.model_type = "glm4_moe_lite",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 1.8, "first_k_dense_replace": 1,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kSharedExpertsNames},
};

inline constexpr FolderName kQwen35Names[] = {{kQkv, "linear_attn.in_proj_qkv.weight"}};
inline constexpr FolderType kQwen35Folders[] = {
    {.model_type = "qwen3_5_text",
     .whole_type = "qwen3_5",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 4, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})",
     .norms_lack_one = true,
     .names = kQwen35Names},
};
inline constexpr std::string_view kQwenDeltaMoeDefaults =
    R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})";
inline constexpr FolderType kQwen35MoeFolders[] = {
    {.model_type = "qwen3_5_moe_text",
     .whole_type = "qwen3_5_moe",
     .defaults = kQwenDeltaMoeDefaults,
     .has_experts = true,
     .norms_lack_one = true,
     .names = kQwen35Names},
};
inline constexpr FolderType kQwen3NextFolders[] = {
    {.model_type = "qwen3_next",
     .defaults = kQwenDeltaMoeDefaults,
     .has_experts = true,
     .norms_lack_one = true,
     .names = kQwen35Names},
};

// One matrix for gates and ups, the gates over the ups.
inline constexpr FolderName kGraniteHybridNames[] = {
    {kSpaceIn, "mamba.in_proj.weight"},
    {kStateTaps, "mamba.conv1d.weight"},
    {kSpaceTapsBias, "mamba.conv1d.bias"},
    {kStateStepBias, "mamba.dt_bias"},
    {kStateDecay, "mamba.A_log"},
    {kSpaceSkip, "mamba.D"},
    {kStateNorm, "mamba.norm.weight"},
    {kStateOutput, "mamba.out_proj.weight"},
    {kRouter, "block_sparse_moe.router.layer.weight"},
    {kGate, "shared_mlp.input_linear.weight"},
    {kUp, "shared_mlp.input_linear.weight"},
    {kDown, "shared_mlp.output_linear.weight"},
    {kSharedGate, "shared_mlp.input_linear.weight"},
    {kSharedUp, "shared_mlp.input_linear.weight"},
    {kSharedDown, "shared_mlp.output_linear.weight"},
};
inline constexpr FolderType kGraniteHybridFolders[] = {
    {.model_type = "granitemoehybrid",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0, "num_local_experts": 8,
                     "num_experts_per_tok": 2, "position_embedding_type": "nope",
                     "shared_intermediate_size": 1024, "mamba_n_heads": 128, "mamba_n_groups": 1,
                     "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_expand": 2})",
     .has_experts = true,
     .names = kGraniteHybridNames,
     .gate_up_stack = "block_sparse_moe.input_linear.weight",
     .down_stack = "block_sparse_moe.output_linear.weight",
     .has_gates_over_ups = true},
};
inline constexpr FolderName kLfm2Names[] = {
    {kEmbeddingsNorm, "embedding_norm.weight"},
    {kAttentionNorm, "operator_norm.weight"},
    {kFfnNorm, "ffn_norm.weight"},
    {kQNorm, "self_attn.q_layernorm.weight"},
    {kKNorm, "self_attn.k_layernorm.weight"},
    {kAttentionOutput, "self_attn.out_proj.weight"},
    {kConvIn, "conv.in_proj.weight"},
    {kConvTaps, "conv.conv.weight"},
    {kConvOutput, "conv.out_proj.weight"},
    {kGate, "feed_forward.w1.weight"},
    {kUp, "feed_forward.w3.weight"},
    {kDown, "feed_forward.w2.weight"},
    {kRouter, "feed_forward.gate.weight"},
    {kChoiceBias, "feed_forward.expert_bias"},
    {kExpertGate, "feed_forward.experts.{}.w1.weight"},
    {kExpertUp, "feed_forward.experts.{}.w3.weight"},
    {kExpertDown, "feed_forward.experts.{}.w2.weight"},
};
inline constexpr FolderType kLfm2Folders[] = {
    {.model_type = "lfm2",
     .whole_type = "lfm2_vl",
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
// Every layer has one norm and one mixer, which may be a feed-forward.
inline constexpr FolderName kNemotronHNames[] = {
    {kEmbedding, "embeddings.weight"},
    {kOutputNorm, "norm_f.weight"},
    {kAttentionNorm, "norm.weight"},
    {kQ, "mixer.q_proj.weight"},
    {kK, "mixer.k_proj.weight"},
    {kV, "mixer.v_proj.weight"},
    {kAttentionOutput, "mixer.o_proj.weight"},
    {kSpaceIn, "mixer.in_proj.weight"},
    {kStateTaps, "mixer.conv1d.weight"},
    {kSpaceTapsBias, "mixer.conv1d.bias"},
    {kStateStepBias, "mixer.dt_bias"},
    {kStateDecay, "mixer.A_log"},
    {kSpaceSkip, "mixer.D"},
    {kStateNorm, "mixer.norm.weight"},
    {kStateOutput, "mixer.out_proj.weight"},
    {kUp, "mixer.up_proj.weight"},
    {kDown, "mixer.down_proj.weight"},
    {kRouter, "mixer.gate.weight"},
    {kChoiceBias, "mixer.gate.e_score_correction_bias"},
    {kExpertUp, "mixer.experts.{}.up_proj.weight"},
    {kExpertDown, "mixer.experts.{}.down_proj.weight"},
    {kSharedUp, "mixer.shared_experts.up_proj.weight"},
    {kSharedDown, "mixer.shared_experts.down_proj.weight"},
};
// Of those with experts and those without.
inline constexpr FolderType kNemotronHFolders[] = {
    {.model_type = "nemotron_h",
     .defaults = R"({"norm_eps": 1e-5, "tie_word_embeddings": false, "num_key_value_heads": 8,
                     "head_dim": 128, "norm_topk_prob": true, "n_groups": 8, "conv_kernel": 4,
                     "ssm_state_size": 128, "mamba_num_heads": 128, "mamba_head_dim": 64})",
     .has_experts = true,
     .names = kNemotronHNames,
     .gate_up_stack = "mixer.experts.up_proj",
     .down_stack = "mixer.experts.down_proj"},
};

}  // namespace kvik::folder_types
