#pragma once

#include <array>

#include "catalogue/family.h"

namespace kvik::families {

using enum TensorRole;

Result<void> finish_modern_bert(const KeyReader& keys, ModelConfig& config);

// Names of BERT's tensors. A classifier's tensors have no prefix.
inline constexpr FolderName kBertNames[] = {
    {kEmbedding, "embeddings.word_embeddings.weight"},
    {kPositions, "embeddings.position_embeddings.weight"},
    {kTokenTypes, "embeddings.token_type_embeddings.weight"},
    {kEmbeddingsNorm, "embeddings.LayerNorm.weight"},
    {kEmbeddingsNormBias, "embeddings.LayerNorm.bias"},
    {kQ, "attention.self.query.weight"},
    {kQBias, "attention.self.query.bias"},
    {kK, "attention.self.key.weight"},
    {kKBias, "attention.self.key.bias"},
    {kV, "attention.self.value.weight"},
    {kVBias, "attention.self.value.bias"},
    {kAttentionOutput, "attention.output.dense.weight"},
    {kAttentionOutputBias, "attention.output.dense.bias"},
    {kAttentionOutputNorm, "attention.output.LayerNorm.weight"},
    {kAttentionOutputNormBias, "attention.output.LayerNorm.bias"},
    {kUp, "intermediate.dense.weight"},
    {kUpBias, "intermediate.dense.bias"},
    {kDown, "output.dense.weight"},
    {kDownBias, "output.dense.bias"},
    {kLayerOutputNorm, "output.LayerNorm.weight"},
    {kLayerOutputNormBias, "output.LayerNorm.bias"},
    {kPooler, "pooler.dense.weight"},
    {kPoolerBias, "pooler.dense.bias"},
    {kClassifier, "classifier.weight"},
    {kClassifierBias, "classifier.bias"},
};

// RoBERTa has the names of BERT, except for the classifier.
consteval auto roberta_names() {
  auto names = std::to_array(kBertNames);
  for (FolderName& name : names) {
    if (name.role == kPooler) name.name = "classifier.dense.weight";
    if (name.role == kPoolerBias) name.name = "classifier.dense.bias";
    if (name.role == kClassifier) name.name = "classifier.out_proj.weight";
    if (name.role == kClassifierBias) name.name = "classifier.out_proj.bias";
  }
  return names;
}
inline constexpr auto kRobertaNames = roberta_names();

inline constexpr std::string_view kRobertaDefaults =
    R"({"layer_norm_eps": 1e-12, "type_vocab_size": 2, "max_position_embeddings": 512,
        "hidden_act": "gelu", "position_embedding_type": "absolute", "pad_token_id": 1})";

inline constexpr FolderName kModernBertNames[] = {
    {kEmbedding, "embeddings.tok_embeddings.weight"},
    {kEmbeddingsNorm, "embeddings.norm.weight"},
    {kAttentionNorm, "attn_norm.weight"},
    {kQkv, "attn.Wqkv.weight"},
    {kAttentionOutput, "attn.Wo.weight"},
    {kFfnNorm, "mlp_norm.weight"},
    {kUp, "mlp.Wi.weight"},
    {kDown, "mlp.Wo.weight"},
    {kOutputNorm, "final_norm.weight"},
};

inline constexpr FolderType kBertFolders[] = {
    {.model_type = "bert",
     .defaults = R"({"layer_norm_eps": 1e-12, "type_vocab_size": 2, "max_position_embeddings": 512,
                     "hidden_act": "gelu", "position_embedding_type": "absolute"})",
     .names = kBertNames,
     .is_encoder = true,
     .layers = "encoder.layer."},
    {.model_type = "roberta",
     .defaults = kRobertaDefaults,
     .names = kRobertaNames,
     .is_encoder = true,
     .layers = "encoder.layer.",
     .has_padding_positions = true},
    {.model_type = "xlm-roberta",
     .defaults = kRobertaDefaults,
     .names = kRobertaNames,
     .is_encoder = true,
     .layers = "encoder.layer.",
     .has_padding_positions = true},
};

inline constexpr FolderType kModernBertFolders[] = {
    {.model_type = "modernbert",
     .defaults = R"({"norm_eps": 1e-5, "max_position_embeddings": 8192, "hidden_activation": "gelu",
                     "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
                     "local_attention": 128, "global_attn_every_n_layers": 3,
                     "attention_bias": false, "mlp_bias": false, "norm_bias": false,
                     "decoder_bias": true})",
     .names = kModernBertNames,
     .is_encoder = true},
};

inline constexpr EncoderConfig kBertEncoder = {
    .has_token_types = true, .has_norm_biases = true, .has_post_norms = true};

inline constexpr Family kBertFamilies[] = {
    {.name = "bert",
     .activation = Activation::kGelu,
     .attention = {.qkv_bias = Presence::kAlways, .output_bias = Presence::kAlways},
     .rope = {.pairing = RopePairing::kHalves, .may_be_absent = true},
     .norms = {.eps = 1e-12, .has_pre_norms = false},
     .has_positions = true,
     .mlp_bias = Presence::kOptional,
     .encoder = kBertEncoder,
     .folders = kBertFolders},
    {.name = "nomic-bert",
     .attention = {.is_fused = true},
     .rope = {.pairing = RopePairing::kHalves},
     .norms = {.eps = 1e-12, .has_pre_norms = false},
     .encoder = kBertEncoder},
    {.name = "modern-bert",
     .activation = Activation::kGatedGelu,
     .attention = {.is_fused = true, .global_every = 3, .global_at = 0},
     .rope = {.pairing = RopePairing::kHalves},
     .has_fused_mlp = true,
     .encoder = EncoderConfig(),
     .finish = finish_modern_bert,
     .folders = kModernBertFolders},
};

}  // namespace kvik::families
