#pragma once

#include "catalogue/family.h"
#include "catalogue/key_reader.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kGraniteMoeNames[] = {
    {kRouter, "block_sparse_moe.router.layer.weight"},
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
// "input_linear" contains gate and up projections, gate first.
inline constexpr FolderName kGraniteHybridNames[] = {
    {kSpaceIn, "mamba.in_proj.weight"},
    {kStateConv, "mamba.conv1d.weight"},
    {kSpaceConvBias, "mamba.conv1d.bias"},
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
     .has_fused_gate_up = true},
};

// A dense Granite with LoRA adapters, of which control tokens choose. Its folders count the layers
// of the switch, which have no weights.
inline constexpr FolderName kGraniteSwitchNames[] = {
    {kQkv, "self_attn.qkv_proj.base_layer.weight"},
    {kAttentionOutput, "self_attn.o_proj.base_layer.weight"},
    {kGate, "shared_mlp.input_linear.base_layer.weight"},
    {kUp, "shared_mlp.input_linear.base_layer.weight"},
    {kDown, "shared_mlp.output_linear.base_layer.weight"},
};
inline constexpr FolderKey kGraniteSwitchKeys[] = {
    {"shared_intermediate_size", "intermediate_size", true},
};
inline constexpr FolderType kGraniteSwitchFolders[] = {
    {.model_type = "granite_switch",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0, "max_lora_rank": 8})",
     .keys = kGraniteSwitchKeys,
     .fixed = R"({"num_local_experts": 0, "position_embedding_type": "rope", "dual_stream": false,
                  "qk_norm": false, "attention_bias": false})",
     .names = kGraniteSwitchNames,
     .has_switch_keys = true,
     .has_fused_gate_up = true},
};
Result<void> finish_granite_switch(const KeyReader& keys, ModelConfig& config);

inline constexpr Family kGraniteFamilies[] = {
    {.name = "granite", .has_scales = true, .folders = kGraniteFolders},
    {.name = "granitemoe",
     .experts = ExpertTraits{},
     .has_scales = true,
     .folders = kGraniteMoeFolders},
    {.name = "granitehybrid",
     .rope = {.may_be_absent = true},
     .experts = ExpertTraits{},
     .recurrence = {.kind = Recurrence::kStateSpace},
     .has_scales = true,
     .folders = kGraniteHybridFolders},
    {.name = "graniteswitch",
     .attention = {.is_fused = true},
     .has_scales = true,
     .finish = finish_granite_switch,
     .folders = kGraniteSwitchFolders},
};

}  // namespace kvik::families
