#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kQwen35Names[] = {{kQkv, "linear_attn.in_proj_qkv.weight"}};
inline constexpr FolderType kQwen35Folders[] = {
    {.model_type = "qwen3_5_text",
     .multimodal_type = "qwen3_5",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 4, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})",
     .has_zero_centered_norms = true,
     .names = kQwen35Names,
     .mtp = &kSeparateMtpNames},
};
inline constexpr std::string_view kQwenDeltaMoeDefaults =
    R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 256,
                     "num_key_value_heads": 2, "partial_rotary_factor": 0.25,
                     "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
                     "linear_value_head_dim": 128, "linear_num_key_heads": 16,
                     "linear_num_value_heads": 32, "full_attention_interval": 4})";
inline constexpr FolderType kQwen35MoeFolders[] = {
    {.model_type = "qwen3_5_moe_text",
     .multimodal_type = "qwen3_5_moe",
     .defaults = kQwenDeltaMoeDefaults,
     .has_experts = true,
     .has_zero_centered_norms = true,
     .names = kQwen35Names,
     .mtp = &kSeparateMtpNames},
};
inline constexpr FolderType kQwen3NextFolders[] = {
    {.model_type = "qwen3_next",
     .defaults = kQwenDeltaMoeDefaults,
     .has_experts = true,
     .has_zero_centered_norms = true,
     .names = kQwen35Names,
     .mtp = &kSeparateMtpNames},
};

inline constexpr Family kQwenDeltaFamilies[] = {
    {.name = "qwen35",
     .attention = {.qk_norm = QkNorm::kHead, .output_gate = OutputGate::kInQ},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .is_ffn_norm_post_attention = true},
     .recurrence = {.kind = Recurrence::kDelta},
     .mtp_layer = usual_mtp_layer,
     .folders = kQwen35Folders},
    {.name = "qwen35moe",
     .attention = {.qk_norm = QkNorm::kHead, .output_gate = OutputGate::kInQ},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .is_ffn_norm_post_attention = true},
     .experts = ExpertTraits{.has_shared_gate = true},
     .recurrence = {.kind = Recurrence::kDelta},
     .mtp_layer = usual_mtp_layer,
     .folders = kQwen35MoeFolders},
    {.name = "qwen3next",
     .attention = {.qk_norm = QkNorm::kHead, .output_gate = OutputGate::kInQ},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6, .is_ffn_norm_post_attention = true},
     .experts = ExpertTraits{.has_shared_gate = true},
     .recurrence = {.kind = Recurrence::kDelta,
                    .value_heads = ValueHeadOrder::kGrouped,
                    .is_delta_gate_fused = true},
     .mtp_layer = usual_mtp_layer,
     .folders = kQwen3NextFolders},
};

}  // namespace kvik::families
