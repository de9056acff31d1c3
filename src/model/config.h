#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "base/metadata.h"
#include "base/result.h"

namespace kvik {

// How a layer's heads turn with their position (Su et al. 2021).
struct RopeConfig {
  float base = 10000.0f;
  float position_scale = 1.0f;  // positions are multiplied by this (linear scaling: 1 / factor)
  uint32_t n_dims = 0;          // of each head; the rest stays
  RopePairing pairing = RopePairing::kInterleaved;
};

struct LayerConfig {
  uint32_t window = 0;  // tokens that attention sees; 0: all
  uint32_t rope = 0;    // index into ModelConfig::ropes
};

// A model as a set of features. A family is nothing but a way to fill this in, in config.cpp; the
// decoder knows no names of families.
struct ModelConfig {
  std::string architecture;
  std::string name;

  uint32_t n_layers = 0;
  uint32_t model_dim = 0;
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t ffn_dim = 0;
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;

  float norm_eps = 1e-5f;
  float attention_scale = 0;     // of q·k
  float attention_soft_cap = 0;  // 0: none
  float logit_soft_cap = 0;      // 0: none
  float embedding_scale = 1.0f;
  Activation activation = Activation::kSilu;
  bool has_qkv_bias = false;
  bool has_qk_norm = false;     // each head of q and k is normed before it turns
  bool has_post_norms = false;  // the outputs of attention and MLP are normed too (sandwich)

  std::vector<LayerConfig> layers;
  std::vector<RopeConfig> ropes;

  uint32_t q_dim() const { return n_heads * head_dim; }
  uint32_t kv_dim() const { return n_kv_heads * head_dim; }
};

// Reads the geometry and the features of a family from a GGUF file's keys. Errors: kUnsupported for
// an architecture or feature that is not known (the message lists those that are), kCorrupt for a
// missing key or a value that cannot be.
Result<ModelConfig> read_config(const Metadata& metadata);

// Families that read_config knows, for messages: "llama, qwen2, …".
std::string known_architectures();

}  // namespace kvik
