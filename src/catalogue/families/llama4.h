#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Llama 4 (text): three of four layers attend within chunks, and the others have no RoPE but an
// attention temperature. A token has one expert; its weight is a factor of the expert's input.
Result<void> finish_llama4(const KeyReader& keys, ModelConfig& config);

inline constexpr FolderName kLlama4Names[] = {
    {kGate, "feed_forward.gate_proj.weight"},
    {kUp, "feed_forward.up_proj.weight"},
    {kDown, "feed_forward.down_proj.weight"},
    {kRouter, "feed_forward.router.weight"},
    {kExpertGate, "feed_forward.experts.{}.gate_proj.weight"},
    {kExpertUp, "feed_forward.experts.{}.up_proj.weight"},
    {kExpertDown, "feed_forward.experts.{}.down_proj.weight"},
    {kSharedGate, "feed_forward.shared_expert.gate_proj.weight"},
    {kSharedUp, "feed_forward.shared_expert.up_proj.weight"},
    {kSharedDown, "feed_forward.shared_expert.down_proj.weight"},
};
inline constexpr FolderKey kLlama4Keys[] = {
    {"intermediate_size", "moe_intermediate_size"},
    {.name = "intermediate_size_mlp", .usual = "intermediate_size", .replaces = true},
};
inline constexpr FolderValue kLlama4Values[] = {
    {"interleave_moe_layer_step", "interleave_moe_layer_step"},
    {"use_qk_norm", "attention.has_plain_qk_norm"},
    {"attn_scale", "attention.temperature_scale"},
    {"floor_scale", "attention.temperature_length"},
};
inline constexpr FolderType kLlama4Folders[] = {
    {.model_type = "llama4_text",
     .multimodal_type = "llama4",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 5e5,
                     "head_dim": 128, "attention_chunk_size": 8192, "num_local_experts": 16,
                     "num_experts_per_tok": 1, "intermediate_size_mlp": 16384,
                     "use_qk_norm": true, "interleave_moe_layer_step": 1})",
     .keys = kLlama4Keys,
     .values = kLlama4Values,
     .fixed = R"({"attention_bias": false, "attn_temperature_tuning": [true, 4]})",
     .window = FolderWindow::kChunked,
     .has_experts = true,
     .is_interleaved = true,
     .stacks = ExpertStacks::kTransposed,
     .names = kLlama4Names,
     .gate_up_stack = "feed_forward.experts.gate_up_proj",
     .down_stack = "feed_forward.experts.down_proj"},
};

inline constexpr Family kLlama4Families[] = {
    {.name = "llama4",
     .attention = {.global_every = 4, .global_at = 3, .unrotated_every = 4},
     .experts =
         ExpertTraits{
             .normalizes = false, .scoring = ExpertScoring::kSigmoid, .weighs_input = true},
     .finish = finish_llama4,
     .folders = kLlama4Folders},
};

}  // namespace kvik::families
