#pragma once

#include "catalogue/families/shared_names.h"
#include "catalogue/families/sparse/indexer_values.h"
#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

// MLA over the tokens that an indexer selects. Queries are scaled by position and head
// (AttentionConfig::has_ssmax). Some layers have no RoPE, and layers may share latent K. The RoPE
// frequencies have learned factors, which GGUF files state as divisors.
Result<void> finish_mistral_large4(const KeyReader& keys, ModelConfig& config);

// Folders have Mistral's own names; adapters have those of Transformers.
inline constexpr FolderName kMistralLarge4Names[] = {
    {kEmbedding, "tok_embeddings.weight"},
    {kRopeDivisors, "lerope.alpha"},
    {kHead, "output.weight"},
    {kAttentionNorm, "attention_norm.weight"},
    {kQ, "attention.wq.weight"},
    {kKvDown, "attention.wkv_a_with_mqa.weight"},
    {kKvDownNorm, "attention.kv_a_norm.weight"},
    {kKvUp, "attention.wkv_b.weight"},
    {kAttentionOutput, "attention.wo.weight"},
    {kSsmaxScale, "attention.ssmax_scaling.s"},
    {kSsmaxBias, "attention.ssmax_scaling.b"},
    {kIndexQuery, "attention.indexer.wq_b.weight"},
    {kIndexKey, "attention.indexer.wk.weight"},
    {kIndexKeyNorm, "attention.indexer.k_norm.weight"},
    {kIndexKeyNormBias, "attention.indexer.k_norm.bias"},
    {kIndexWeights, "attention.indexer.weights_proj.weight"},
    {kIndexInputNorm, "attention.indexer.q_input_norm.weight"},
    {kIndexInputNormBias, "attention.indexer.q_input_norm.bias"},
    {kIndexSsmaxScale, "attention.indexer.ssmax_scaling.s"},
    {kIndexSsmaxBias, "attention.indexer.ssmax_scaling.b"},
    {kFfnNorm, "ffn_norm.weight"},
    {kGate, "feed_forward.w1.weight"},
    {kUp, "feed_forward.w3.weight"},
    {kDown, "feed_forward.w2.weight"},
    {kRouter, "gate.weight"},
    {kExpertGate, "experts.{}.w1.weight"},
    {kExpertUp, "experts.{}.w3.weight"},
    {kExpertDown, "experts.{}.w2.weight"},
    {kSharedGate, "shared_experts.w1.weight"},
    {kSharedUp, "shared_experts.w3.weight"},
    {kSharedDown, "shared_experts.w2.weight"},
};

inline constexpr FolderType kMistralLarge4Folders[] = {
    {.model_type = "mistral_large4_text",
     .multimodal_type = "mistral_large4",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "norm_topk_prob": true,
                     "routed_scaling_factor": 1.0, "first_k_dense_replace": 1,
                     "n_shared_experts": 1, "index_n_heads": 32, "index_head_dim": 128,
                     "index_topk": 2048, "final_logit_softcapping": 30.0,
                     "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0,
                                         "factor": 2048.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                         "original_max_position_embeddings": 512,
                                         "attention_factor": 1.0}})",
     .values = kIndexerValues,
     .fixed = R"({"attention_bias": false, "n_group": 1})",
     .has_experts = true,
     .is_interleaved = true,
     .names = kMistralLarge4Names,
     .has_shared_indexers = true,
     .has_latent_keys = true},
};

inline constexpr Family kMistralLarge4Families[] = {
    {.name = "mistral-large4",
     .attention = {.is_latent = true},
     .experts = ExpertTraits{},
     .logit_soft_cap = 30.0,
     .finish = finish_mistral_large4,
     .folders = kMistralLarge4Folders,
     .modules = kSharedExpertsNames},
};

}  // namespace kvik::families
