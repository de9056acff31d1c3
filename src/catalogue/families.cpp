#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "catalogue/family.h"

namespace kvik {
namespace {

using enum TensorRole;

// --- Folders. Defaults are those of the configuration classes of transformers 4 and 5. ---

constexpr FolderName kMixtralNames[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
};
constexpr FolderName kGemmaNames[] = {{kFfnNorm, "pre_feedforward_layernorm.weight"}};
constexpr FolderName kGraniteMoeNames[] = {
    {kRouter, "block_sparse_moe.router.layer.weight"},
};
constexpr FolderName kPhiNames[] = {{kUp, "mlp.gate_up_proj.weight"}};

constexpr FolderType kLlamaFolders[] = {
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
constexpr FolderType kQwen2Folders[] = {
    {.model_type = "qwen2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false})",
     .window = FolderWindow::kIfAsked},
};
constexpr FolderType kQwen2MoeFolders[] = {
    {.model_type = "qwen2_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = FolderWindow::kIfAsked,
     .has_experts = true},
};
constexpr FolderType kQwen3Folders[] = {
    {.model_type = "qwen3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .window = FolderWindow::kIfAsked},
};
constexpr FolderType kQwen3MoeFolders[] = {
    {.model_type = "qwen3_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = FolderWindow::kIfAsked,
     .has_experts = true},
};
// Their images and films turn by three positions; those of text are the same three times.
constexpr FolderType kQwen3VlFolders[] = {
    {.model_type = "qwen3_vl_text",
     .whole_type = "qwen3_vl",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})"},
};
constexpr FolderType kQwen3VlMoeFolders[] = {
    {.model_type = "qwen3_vl_moe_text",
     .whole_type = "qwen3_vl_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true})",
     .has_experts = true,
     .stacks = ExpertStacks::kTransposed},
};
constexpr FolderType kGemma2Folders[] = {
    {.model_type = "gemma2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256,
                     "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})",
     .window = FolderWindow::kStated,
     .norms_lack_one = true,
     .has_query_scalar = true,
     .names = kGemmaNames},
};
constexpr FolderType kGemma3Folders[] = {
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
constexpr FolderType kPhi3Folders[] = {
    {.model_type = "phi3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .window = FolderWindow::kStated,
     .names = kPhiNames},
};
constexpr FolderType kGraniteFolders[] = {
    {.model_type = "granite", .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0})"},
};
constexpr FolderType kGraniteMoeFolders[] = {
    {.model_type = "granitemoe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0, "num_local_experts": 8,
                     "num_experts_per_tok": 2})",
     .has_experts = true,
     .names = kGraniteMoeNames,
     .gate_up_stack = "block_sparse_moe.input_linear.weight",
     .down_stack = "block_sparse_moe.output_linear.weight"},
};
constexpr FolderType kOlmo2Folders[] = {
    {.model_type = "olmo2", .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})"},
};

constexpr FolderName kGemma4Names[] = {
    {kFfnNorm, "pre_feedforward_layernorm.weight"},
    {kRouter, "router.proj.weight"},
};
constexpr FolderType kGemma4Folders[] = {
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

constexpr FolderName kGptOssNames[] = {{kRouter, "mlp.router.weight"}};
constexpr FolderName kMiniMaxNames[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kChoiceBias, "block_sparse_moe.e_score_correction_bias"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
};
constexpr FolderName kGlmNames[] = {
    {kSharedGate, "mlp.shared_experts.gate_proj.weight"},
    {kSharedUp, "mlp.shared_experts.up_proj.weight"},
    {kSharedDown, "mlp.shared_experts.down_proj.weight"},
};

constexpr FolderType kMistral3Folders[] = {
    {.model_type = "ministral3",
     .whole_type = "mistral3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 128})"},
};
constexpr FolderType kGlm4MoeFolders[] = {
    {.model_type = "glm4_moe",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "partial_rotary_factor": 0.5, "n_group": 1, "topk_group": 1,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
                     "n_shared_experts": 1})",
     .has_experts = true,
     .names = kGlmNames},
};
constexpr FolderType kMiniMaxM2Folders[] = {
    {.model_type = "minimax_m2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .has_experts = true,
     .names = kMiniMaxNames,
     .gate_up_stack = "block_sparse_moe.experts.gate_up_proj",
     .down_stack = "block_sparse_moe.experts.down_proj"},
};
constexpr FolderType kGptOssFolders[] = {
    {.model_type = "gpt_oss",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "head_dim": 64,
                     "sliding_window": 128, "rope_theta": 150000.0, "num_key_value_heads": 8,
                     "num_local_experts": 128, "num_experts_per_tok": 4})",
     .window = FolderWindow::kStated,
     .has_experts = true,
     .stacks = ExpertStacks::kInterleaved,
     .names = kGptOssNames},
};

constexpr FolderName kDeepseekNames[] = {
    {kSharedGate, "mlp.shared_experts.gate_proj.weight"},
    {kSharedUp, "mlp.shared_experts.up_proj.weight"},
    {kSharedDown, "mlp.shared_experts.down_proj.weight"},
};
// V2's routers score with softmax, V3's and those of its heirs with sigmoids.
constexpr FolderType kDeepseek2Folders[] = {
    {.model_type = "deepseek_v2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
                     "scoring_func": "softmax"})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kDeepseekNames},
    {.model_type = "deepseek_v3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "first_k_dense_replace": 3,
                     "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kDeepseekNames},
    {.model_type = "kimi_k2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.827, "first_k_dense_replace": 1,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kDeepseekNames},
    {.model_type = "glm4_moe_lite",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 1.8, "first_k_dense_replace": 1,
                     "scoring_func": "sigmoid", "n_group": 1, "topk_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kDeepseekNames},
};

constexpr FolderName kQwen35Names[] = {{kQkv, "linear_attn.in_proj_qkv.weight"}};
constexpr FolderType kQwen35Folders[] = {
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
constexpr FolderType kQwen35MoeFolders[] = {
    {.model_type = "qwen3_5_moe_text",
     .whole_type = "qwen3_5_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})",
     .has_experts = true,
     .norms_lack_one = true,
     .names = kQwen35Names},
};
constexpr FolderType kQwen3NextFolders[] = {
    {.model_type = "qwen3_next",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})",
     .has_experts = true,
     .norms_lack_one = true,
     .names = kQwen35Names},
};

// One matrix for gates and ups, the gates over the ups.
constexpr FolderName kGraniteHybridModules[] = {
    {kSpaceIn, "mamba.in_proj.weight"},
    {kStateTaps, "mamba.conv1d.weight"},
    {kStateOutput, "mamba.out_proj.weight"},
    {kRouter, "block_sparse_moe.router.layer.weight"},
    {kGate, "shared_mlp.input_linear.weight"},
    {kUp, "shared_mlp.input_linear.weight"},
    {kDown, "shared_mlp.output_linear.weight"},
    {kSharedGate, "shared_mlp.input_linear.weight"},
    {kSharedUp, "shared_mlp.input_linear.weight"},
    {kSharedDown, "shared_mlp.output_linear.weight"},
};
constexpr FolderName kLfm2Modules[] = {
    {kAttentionOutput, "self_attn.out_proj.weight"},
    {kConvIn, "conv.in_proj.weight"},
    {kConvTaps, "conv.conv.weight"},
    {kConvOutput, "conv.out_proj.weight"},
    {kGate, "feed_forward.w1.weight"},
    {kUp, "feed_forward.w3.weight"},
    {kDown, "feed_forward.w2.weight"},
    {kRouter, "feed_forward.gate.weight"},
    {kExpertGate, "feed_forward.experts.{}.w1.weight"},
    {kExpertUp, "feed_forward.experts.{}.w3.weight"},
    {kExpertDown, "feed_forward.experts.{}.w2.weight"},
};

// --- Families ---

constexpr Family kFamilies[] = {
    {.name = "llama", .has_experts = true, .folders = kLlamaFolders},
    {.name = "qwen2",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .norm_eps = 1e-6,
     .folders = kQwen2Folders},
    {.name = "qwen2moe",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .has_experts = true,
     .normalizes_experts = false,
     .has_shared_gate = true,
     .norm_eps = 1e-6,
     .folders = kQwen2MoeFolders},
    {.name = "qwen3",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .norm_eps = 1e-6,
     .folders = kQwen3Folders},
    {.name = "qwen3moe",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .has_experts = true,
     .norm_eps = 1e-6,
     .folders = kQwen3MoeFolders},
    {.name = "qwen3vl",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .norm_eps = 1e-6,
     .folders = kQwen3VlFolders},
    {.name = "qwen3vlmoe",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .has_experts = true,
     .norm_eps = 1e-6,
     .folders = kQwen3VlMoeFolders},
    {.name = "gemma2",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 2,
     .global_at = 1,
     .wide_scale_layers = 46,
     .norm_eps = 1e-6,
     .attention_soft_cap = 50,
     .logit_soft_cap = 30,
     .folders = kGemma2Folders},
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .qk_norm = QkNorm::kHead,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 6,
     .global_at = 5,
     .has_local_rope = true,
     .wide_scale_layers = 62,
     .norm_eps = 1e-6,
     .folders = kGemma3Folders},
    {.name = "gemma4",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .qk_norm = QkNorm::kHead,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 6,
     .global_at = 5,
     .has_experts = true,
     .is_unscaled = true,
     .has_layer_kinds = true,
     .has_mlp_beside_experts = true,
     .norm_eps = 1e-6,
     .logit_soft_cap = 30,
     .folders = kGemma4Folders},
    {.name = "phi3", .pairing = RopePairing::kHalves, .is_fused = true, .folders = kPhi3Folders},
    {.name = "granite", .has_scales = true, .folders = kGraniteFolders},
    {.name = "granitemoe", .has_scales = true, .has_experts = true, .folders = kGraniteMoeFolders},
    {.name = "olmo2",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kRow,
     .has_pre_norms = false,
     .has_post_norms = true,
     .norm_eps = 1e-6,
     .folders = kOlmo2Folders},
    {.name = "mistral3", .has_temperature = true, .folders = kMistral3Folders},
    {.name = "glm4moe",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .qk_norm = QkNorm::kHead,
     .is_qkv_bias_optional = true,
     .is_qk_norm_optional = true,
     .is_ffn_norm_post_attention = true,
     .has_experts = true,
     .normalizes_experts = false,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .folders = kGlm4MoeFolders},
    {.name = "minimax-m2",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kRow,
     .has_experts = true,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .norm_eps = 1e-6,
     .folders = kMiniMaxM2Folders},
    {.name = "deepseek2",
     .has_latent = true,
     .has_experts = true,
     .normalizes_experts = false,
     .has_choice_bias = true,
     .is_choice_bias_optional = true,
     .norm_eps = 1e-6,
     .folders = kDeepseek2Folders},
    {.name = "lfm2",
     .pairing = RopePairing::kHalves,
     .recurrence = Recurrence::kShortConv,
     .is_last_norm_embeddings = true,
     .qk_norm = QkNorm::kHead,
     .modules = kLfm2Modules},
    {.name = "lfm2moe",
     .pairing = RopePairing::kHalves,
     .recurrence = Recurrence::kShortConv,
     .is_last_norm_embeddings = true,
     .qk_norm = QkNorm::kHead,
     .has_experts = true,
     .scoring = ExpertScoring::kSigmoid,
     .has_choice_bias = true,
     .modules = kLfm2Modules},
    {.name = "granitehybrid",
     .recurrence = Recurrence::kStateSpace,
     .may_lack_rope = true,
     .has_scales = true,
     .has_experts = true,
     .modules = kGraniteHybridModules},
    {.name = "qwen35",
     .pairing = RopePairing::kHalves,
     .has_output_gate = true,
     .recurrence = Recurrence::kDelta,
     .qk_norm = QkNorm::kHead,
     .is_ffn_norm_post_attention = true,
     .norm_eps = 1e-6,
     .folders = kQwen35Folders},
    {.name = "qwen35moe",
     .pairing = RopePairing::kHalves,
     .has_output_gate = true,
     .recurrence = Recurrence::kDelta,
     .qk_norm = QkNorm::kHead,
     .is_ffn_norm_post_attention = true,
     .has_experts = true,
     .has_shared_gate = true,
     .norm_eps = 1e-6,
     .folders = kQwen35MoeFolders},
    {.name = "qwen3next",
     .pairing = RopePairing::kHalves,
     .has_output_gate = true,
     .recurrence = Recurrence::kDelta,
     .value_heads = ValueHeadOrder::kGrouped,
     .is_delta_gate_fused = true,
     .qk_norm = QkNorm::kHead,
     .is_ffn_norm_post_attention = true,
     .has_experts = true,
     .has_shared_gate = true,
     .norm_eps = 1e-6,
     .folders = kQwen3NextFolders},
    {.name = "gpt-oss",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kClampedSwish,
     .has_qkv_bias = true,
     .has_output_bias = true,
     .has_sinks = true,
     .is_ffn_norm_post_attention = true,
     .global_every = 2,
     .global_at = 1,
     .has_experts = true,
     .has_score_bias = true,
     .has_expert_biases = true,
     .is_yarn_whole = false,
     .folders = kGptOssFolders},
};

}  // namespace

const Family* find_family(std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (family.name == architecture) return &family;
  }
  return nullptr;
}

std::string known_architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string families_with_experts() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) {
    if (family.has_experts) names.push_back(family.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

FamilyFolder find_folder_type(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    for (const FolderType& type : family.folders) {
      if (type.model_type == model_type) return {&family, &type};
    }
  }
  return {};
}

namespace {

std::string_view name_among(std::span<const FolderName> names, TensorRole role) {
  for (const FolderName& name : names) {
    if (name.role == role) return name.name;
  }
  return usual_folder_name(role);
}

}  // namespace

std::string_view folder_name(const FolderType& type, TensorRole role) {
  return name_among(type.names, role);
}

bool is_folder_name(const Family& family, TensorRole role, std::string_view name) {
  if (family.folders.empty()) return name_among(family.modules, role) == name;
  return std::ranges::any_of(
      family.folders, [&](const FolderType& type) { return name_among(type.names, role) == name; });
}

std::string known_model_types() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) {
    for (const FolderType& type : family.folders) {
      names.push_back(type.model_type);
      if (!type.whole_type.empty()) names.push_back(type.whole_type);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace kvik
