#pragma once

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

inline constexpr FolderName kMiniMaxNames[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kCorrectionBias, "block_sparse_moe.e_score_correction_bias"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
};
inline constexpr FolderType kMiniMaxM2Folders[] = {
    {.model_type = "minimax_m2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .has_experts = true,
     .names = kMiniMaxNames,
     .gate_up_stack = "block_sparse_moe.experts.gate_up_proj",
     .down_stack = "block_sparse_moe.experts.down_proj"},
};

inline constexpr Family kMinimaxFamilies[] = {
    {.name = "minimax-m2",
     .attention = {.qk_norm = QkNorm::kRow},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .folders = kMiniMaxM2Folders},
};

}  // namespace kvik::families
