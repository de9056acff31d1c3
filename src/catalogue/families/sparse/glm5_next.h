#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// GLM 5.3 ("glm5-next"): layers of KDA and of MLA without RoPE, which attends to the blocks of
// tokens that an indexer selects by a weighted mean of their keys, and manifold-constrained
// hyper-connections.
Result<void> finish_glm5_next(const KeyReader& keys, ModelConfig& config);
// The MTP layer has one residual stream. It attends to all tokens; its indexer is not used.
Result<LayerConfig> glm5_next_mtp_layer(const KeyReader& keys, const ModelConfig& config);

inline constexpr auto kGlm5NextNames = with_shared_experts({
    {kStateBeta, "self_attn.b_proj.weight"},
    {kStateStepBias, "self_attn.dt_bias"},
    {kStateDecay, "self_attn.A_log"},
    {kStateNorm, "self_attn.o_norm.weight"},
});
// Adapters have the names of Transformers.
inline constexpr FolderName kGlm5NextModules[] = {
    {kDecayDown, "self_attn.forget_gate.f_a_proj.weight"},
    {kDecayUp, "self_attn.forget_gate.f_b_proj.weight"},
};
inline constexpr FolderValue kGlm5NextValues[] = {
    {"index_n_heads", "attention.indexer.head_count"},
    {"index_head_dim", "attention.indexer.key_length"},
    {"index_topk", "attention.indexer.top_k"},
    {"index_kpool", "attention.indexer.kpool"},
    {"index_kpool_always_select_tail", "attention.indexer.kpool_select_tail"},
    {"hc_mult", "hyper_connection.count"},
    {"hc_sinkhorn_iters", "hyper_connection.sinkhorn_iterations"},
    {"hc_eps", "hyper_connection.epsilon"},
};
inline constexpr FolderType kGlm5NextFolders[] = {
    {.model_type = "glm5_next_text",
     .multimodal_type = "glm5_next",
     .is_any_text_type = true,
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "n_group": 1,
                     "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 3,
                     "qk_rope_head_dim": 0, "index_n_heads": 32, "index_head_dim": 128,
                     "index_topk": 2048, "index_kpool": 16, "index_kpool_always_select_tail": true,
                     "swiglu_limit": 10.0, "linear_head_dim": 128, "linear_num_heads": 64,
                     "linear_conv_kernel_dim": 4, "linear_lower_bound": -5.0, "hc_mult": 4,
                     "hc_eps": 1e-6, "hc_sinkhorn_iters": 20})",
     .values = kGlm5NextValues,
     .fixed = R"({"attention_bias": false, "mhc": true, "mla_use_nope": true,
                  "index_kpool_compress": true})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kGlm5NextNames,
     .has_shared_indexers = true},
};

inline constexpr Family kGlm5NextFamilies[] = {
    {.name = "glm5-next",
     .attention = {.is_latent = true},
     .rope = {.is_absent = true},
     .experts =
         ExpertTraits{.scoring = ExpertScoring::kSigmoid, .correction_bias = Presence::kAlways},
     .recurrence = {.kind = Recurrence::kKda, .is_kda_bound_optional = true},
     .finish = finish_glm5_next,
     .mtp_layer = glm5_next_mtp_layer,
     .folders = kGlm5NextFolders,
     .modules = kGlm5NextModules},
};

}  // namespace kvik::families
