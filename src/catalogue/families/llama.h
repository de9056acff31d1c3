#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kMixtralNames[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
};
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

inline constexpr Family kLlamaFamilies[] = {
    {.name = "llama",
     .attention = {.qkv_bias = Presence::kOptional, .output_bias = Presence::kOptional},
     .experts = ExpertTraits{},
     .mlp_bias = Presence::kOptional,
     .folders = kLlamaFolders},
};

}  // namespace kvik::families
