#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderType kQwen2Folders[] = {
    {.model_type = "qwen2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false})",
     .window = FolderWindow::kIfEnabled},
};
inline constexpr FolderType kQwen2MoeFolders[] = {
    {.model_type = "qwen2_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = FolderWindow::kIfEnabled,
     .has_experts = true},
};
inline constexpr FolderType kQwen3Folders[] = {
    {.model_type = "qwen3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .window = FolderWindow::kIfEnabled},
};
inline constexpr FolderType kQwen3MoeFolders[] = {
    {.model_type = "qwen3_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = FolderWindow::kIfEnabled,
     .has_experts = true},
};
// Images and videos use three position ids per token (M-RoPE); for text all three are equal.
inline constexpr FolderType kQwen3VlFolders[] = {
    {.model_type = "qwen3_vl_text",
     .multimodal_type = "qwen3_vl",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})"},
};
inline constexpr FolderType kQwen3VlMoeFolders[] = {
    {.model_type = "qwen3_vl_moe_text",
     .multimodal_type = "qwen3_vl_moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": true})",
     .has_experts = true,
     .stacks = ExpertStacks::kTransposed},
};

inline constexpr Family kQwenFamilies[] = {
    {.name = "qwen2",
     .attention = {.qkv_bias = Presence::kAlways},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .folders = kQwen2Folders},
    {.name = "qwen2moe",
     .attention = {.qkv_bias = Presence::kAlways},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{.normalizes = false, .has_shared_gate = true},
     .folders = kQwen2MoeFolders},
    {.name = "qwen3",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .folders = kQwen3Folders},
    {.name = "qwen3moe",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{},
     .folders = kQwen3MoeFolders},
    {.name = "qwen3vl",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .folders = kQwen3VlFolders},
    {.name = "qwen3vlmoe",
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts = ExpertTraits{},
     .folders = kQwen3VlMoeFolders},
};

}  // namespace kvik::families
