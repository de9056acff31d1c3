#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// Kimi Linear: layers of KDA and of MLA without RoPE, with experts.
inline constexpr FolderName kKimiLinearNames[] = {
    {kStateBeta, "self_attn.b_proj.weight"},
    {kStateStepBias, "self_attn.dt_bias"},
    {kStateDecay, "self_attn.A_log"},
    {kStateNorm, "self_attn.o_norm.weight"},
    {kRouter, "block_sparse_moe.gate.weight"},
    {kCorrectionBias, "block_sparse_moe.gate.e_score_correction_bias"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
    {kSharedGate, "block_sparse_moe.shared_experts.gate_proj.weight"},
    {kSharedUp, "block_sparse_moe.shared_experts.up_proj.weight"},
    {kSharedDown, "block_sparse_moe.shared_experts.down_proj.weight"},
};
inline constexpr FolderKey kKimiLinearKeys[] = {
    {"model_max_length", "max_position_embeddings"},
    {"num_experts_per_token", "num_experts_per_tok"},
    {"num_shared_experts", "n_shared_experts"},
    {"num_expert_group", "n_group"},
    {"moe_renormalize", "norm_topk_prob"},
    {"moe_router_activation_func", "scoring_func"},
};
inline constexpr FolderType kKimiLinearFolders[] = {
    {.model_type = "kimi_linear",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false,
                     "linear_conv_kernel_dim": 4, "linear_head_dim": 128, "linear_num_heads": 32,
                     "norm_topk_prob": true, "scoring_func": "sigmoid"})",
     .keys = kKimiLinearKeys,
     .fixed = R"({"mla_use_nope": true, "moe_layer_freq": 1})",
     .has_experts = true,
     .names = kKimiLinearNames,
     .other_mlp = "block_sparse_moe."},
};

inline constexpr Family kKimiLinearFamilies[] = {
    {.name = "kimi-linear",
     .attention = {.is_latent = true},
     .rope = {.pairing = RopePairing::kHalves, .may_be_absent = true},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .recurrence = {.kind = Recurrence::kKda},
     .folders = kKimiLinearFolders},
};

}  // namespace kvik::families
