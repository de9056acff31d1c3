#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// MiniMax M3 (text): in most layers, each head of an indexer selects blocks of tokens for one KV
// head (IndexerConfig). GGUF files state no list of these layers: they are those with experts.
Result<void> finish_minimax_m3(const KeyReader& keys, ModelConfig& config);

// Names in MiniMax's own folders.
inline constexpr FolderName kMiniMaxM3Names[] = {
    {kRouter, "block_sparse_moe.gate.weight"},
    {kCorrectionBias, "block_sparse_moe.e_score_correction_bias"},
    {kExpertGate, "block_sparse_moe.experts.{}.w1.weight"},
    {kExpertUp, "block_sparse_moe.experts.{}.w3.weight"},
    {kExpertDown, "block_sparse_moe.experts.{}.w2.weight"},
    {kSharedGate, "block_sparse_moe.shared_experts.gate_proj.weight"},
    {kSharedUp, "block_sparse_moe.shared_experts.up_proj.weight"},
    {kSharedDown, "block_sparse_moe.shared_experts.down_proj.weight"},
    {kIndexHeadQuery, "self_attn.index_q_proj.weight"},
    {kIndexHeadKey, "self_attn.index_k_proj.weight"},
    {kIndexQueryNorm, "self_attn.index_q_norm.weight"},
    {kIndexKeyNorm, "self_attn.index_k_norm.weight"},
};
// Names in folders that Transformers writes for the text model alone.
inline constexpr FolderName kMiniMaxM3TextNames[] = {
    {kGate, "mlp.gate_up_proj.weight"},
    {kUp, "mlp.gate_up_proj.weight"},
    {kSharedGate, "mlp.shared_experts.gate_up_proj.weight"},
    {kSharedUp, "mlp.shared_experts.gate_up_proj.weight"},
    {kSharedDown, "mlp.shared_experts.down_proj.weight"},
};
inline constexpr FolderKey kMiniMaxM3Keys[] = {
    {"intermediate_size", "moe_intermediate_size"},
    {.name = "dense_intermediate_size", .usual = "intermediate_size", .replaces = true},
    {"shared_intermediate_size", "shared_expert_intermediate_size"},
};
inline constexpr FolderValue kMiniMaxM3Values[] = {
    {"sparse_attention_config.sparse_num_index_heads", "attention.indexer.head_count"},
    {"sparse_attention_config.sparse_index_dim", "attention.indexer.key_length"},
    {"sparse_attention_config.sparse_topk_blocks", "attention.indexer.top_k"},
    {"sparse_attention_config.sparse_block_size", "attention.indexer.block_size"},
    {"sparse_attention_config.sparse_local_block", "attention.indexer.local_blocks"},
    {"index_n_heads", "attention.indexer.head_count"},
    {"index_head_dim", "attention.indexer.key_length"},
    {"index_topk_blocks", "attention.indexer.top_k"},
    {"index_block_size", "attention.indexer.block_size"},
    {"index_local_blocks", "attention.indexer.local_blocks"},
};
inline constexpr std::string_view kMiniMaxM3Defaults =
    R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128,
        "num_local_experts": 128, "num_experts_per_tok": 4, "dense_intermediate_size": 12288,
        "intermediate_size": 3072, "shared_intermediate_size": 3072, "rope_theta": 5e6,
        "routed_scaling_factor": 2.0, "index_n_heads": 4, "index_head_dim": 128,
        "index_block_size": 128, "index_topk_blocks": 16, "index_local_blocks": 1})";
inline constexpr std::string_view kMiniMaxM3Fixed =
    R"({"swiglu_alpha": 1.702, "swiglu_beta": 1.0, "use_gemma_norm": true, "use_qk_norm": true,
        "qk_norm_type": "per_head", "attention_output_gate": false, "use_routing_bias": true})";

// MiniMax's own folders, in the form of a multimodal model.
inline constexpr FolderType kMiniMaxM3Folder{.model_type = "minimax_m3",
                                             .multimodal_type = "minimax_m3_vl",
                                             .is_any_text_type = true,
                                             .defaults = kMiniMaxM3Defaults,
                                             .keys = kMiniMaxM3Keys,
                                             .values = kMiniMaxM3Values,
                                             .fixed = kMiniMaxM3Fixed,
                                             .has_experts = true,
                                             .has_zero_centered_norms = true,
                                             .names = kMiniMaxM3Names,
                                             .has_sparse_layers = true};
consteval FolderType minimax_m3_text_folder() {
  FolderType type = kMiniMaxM3Folder;
  type.model_type = "minimax_m3_vl_text";
  type.multimodal_type = {};
  type.is_any_text_type = false;
  type.names = kMiniMaxM3TextNames;
  type.has_fused_gate_up = true;
  return type;
}
inline constexpr FolderType kMiniMaxM3Folders[] = {kMiniMaxM3Folder, minimax_m3_text_folder()};

inline constexpr Family kMinimaxSparseFamilies[] = {
    {.name = "minimax-m3",
     .activation = Activation::kClampedSwish,
     .attention = {.qk_norm = QkNorm::kHead},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-6},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .finish = finish_minimax_m3,
     .folders = kMiniMaxM3Folders},
};

}  // namespace kvik::families
