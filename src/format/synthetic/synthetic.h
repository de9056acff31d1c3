#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "format/model_source.h"

namespace kvik {

// Geometry of a well-known model, as in tools/make/make_model.py.
struct Geometry {
  const char* name;
  const char* architecture;
  uint32_t n_layers, model_dim, n_heads, n_kv_heads, head_dim, ffn_dim, n_ctx_train;
  float rope_base;
  uint32_t window;   // 0: none
  uint32_t n_vocab;  // vocabulary size of the real model
  bool tied_head;    // no output.weight: the embedding is used
};

// Tensors of RoPE frequency divisors: none, one for all contexts, or one each for short and long
// contexts.
enum class RopeDivisors : uint8_t { kNone, kOneSet, kTwoSets };

// Optional features; zero means absent.
struct ModelPreset : Geometry {
  struct Experts {
    uint32_t n = 0, n_used = 0, ffn_dim = 0, shared_ffn_dim = 0;
    uint32_t n_dense_layers = 0;  // first layers without experts
    float weight_scale = 0;
    bool normalizes = false;  // sets "expert_weights_norm", for families with another default
    bool is_sigmoid = false;  // sets "expert_gating_func", for families with another default
    uint32_t n_groups = 0, n_groups_used = 0;
    uint32_t every = 0;       // every n-th layer has experts; 0: all
    uint32_t latent_dim = 0;  // ExpertsConfig::latent_dim
    bool differ = false;      // their sizes, and how many are used, by layer

    uint32_t n_used_in(uint32_t layer) const { return differ ? 2 + layer % 4 : n_used; }
    uint32_t ffn_dim_in(uint32_t layer) const { return differ ? 64 + 32 * (layer % 4) : ffn_dim; }
  };
  struct Rope {
    uint32_t n_dims = 0;  // rotated dimensions of each head; 0: all
    const char* scaling = nullptr;
    float factor = 0;
    uint32_t n_ctx_original = 0;
    float log_multiplier = 0, beta_fast = 0;
    RopeDivisors divisors = RopeDivisors::kNone;
  };
  struct Scales {
    float embedding = 0, residual = 0, attention = 0, logit = 0;
  };
  struct Latent {  // LatentConfig
    uint32_t rank = 0, q_rank = 0, qk_nope_head_dim = 0, qk_rope_head_dim = 0, value_dim = 0;
    uint32_t unrotated_every = 0;  // every n-th layer has no RoPE; 0: all have it
    // a bit per layer: layers that read latent K of the last one of their kind
    uint64_t sharing_layers = 0;
    bool shares(uint32_t layer) const { return layer < 64 && (sharing_layers >> layer & 1) != 0; }
    bool is_rotated(uint32_t layer) const {
      return unrotated_every == 0 || (layer + 1) % unrotated_every != 0;
    }
  };
  struct Kinds {                     // kinds of layers (catalogue/families/gemma.cpp)
    uint32_t global_every = 0;       // every n-th layer has full attention; 0: all layers are alike
    uint32_t window_head_dim = 0;    // of sliding-window layers; others have Geometry::head_dim
    uint32_t n_global_kv_heads = 0;  // KV heads of full-attention layers; 0: as in the geometry
    bool is_k_v = false;             // full-attention layers use K as V
    uint32_t n_sharing = 0;          // number of last layers that share K and V of others
    uint32_t sharing_ffn_dim = 0;    // MLP size of those layers; 0: as in the geometry
    uint32_t per_layer_dim = 0;
    uint32_t n_streams = 0, laurel_rank = 0;  // StreamsConfig; 0: one residual stream
    uint32_t n_cut_off = 0;  // number of first layers with ActivationParameters::cutoff
    bool is_windowed(uint32_t layer) const { return (layer + 1) % global_every != 0; }
  };
  Experts experts = {};
  Rope rope = {};
  Scales scales = {};
  float temperature = 0;
  bool has_qk_norm = true,
       has_correction_bias = true;  // used in families in which they are optional
  Latent latent = {};
  Kinds kinds = {};
  struct Delta {  // DeltaConfig, and the interval of attention layers
    uint32_t n_key_heads = 0, n_value_heads = 0, key_dim = 0, value_dim = 0, kernel_size = 0;
    uint32_t interval = 0;
  };
  Delta delta = {};
  struct Mixers {                   // ShortConvConfig, or StateSpaceConfig if there are heads
    uint64_t attention_layers = 0;  // a bit per layer, the first layer lowest
    uint32_t kernel_size = 0;
    uint32_t n_space_heads = 0, space_head_dim = 0, n_groups = 0, state_dim = 0;
    // a bit per layer: layers with only a feed-forward block; 0: all layers have both halves
    uint64_t feed_forward_layers = 0;
    uint32_t step_rank = 0;     // SelectiveConfig; 0: another kind
    uint32_t kda_head_dim = 0;  // KdaConfig; 0: another kind
  };
  Mixers mixers = {};
  float logit_factor = 0;          // "logit_scale" of families in which it is a factor; 0: no key
  uint32_t n_window_heads = 0;     // query heads of layers with a window; 0: as in the geometry
  uint64_t windowed_layers = 0;    // a bit per layer; 0: as usual in the family
  uint32_t n_window_kv_heads = 0;  // KV heads of layers with a window; 0: as in the geometry
  uint32_t value_dim = 0;          // of heads of V; 0: as in the geometry
  // MlpConfig::limit of experts in odd layers; that of MLPs and shared experts is half of it, in
  // all layers but the first
  float limit = 0;
  float factor = 0;  // of the parts of layers in which attention has a state space beside it
  struct Indexer {   // IndexerConfig
    uint32_t n_heads = 0, head_dim = 0, n_top = 0;
    uint64_t shared_layers = 0;  // a bit per layer: layers that share the selection of another
    uint32_t block_tokens = 0, n_local = 0;
    uint32_t key_tokens = 0;  // of blocks with weighted means; 0: there are none
  };
  Indexer indexer = {};
  struct Hyper {  // HyperConnectionsConfig, and NgramConfig with one layer
    uint32_t n_streams = 0, rank = 0;
    uint32_t ngram_layer = 0, n_tokens = 0, heads_per_size = 0, row_dim = 0, kernel_size = 0;
    uint32_t n_rows = 0;  // of a head, at least
    uint32_t end_token = 0;
    uint32_t block_tokens = 0;  // IndexerConfig
    uint32_t n_iterations = 0;  // SinkhornConfig; 0: it is absent
  };
  Hyper hyper = {};
  struct Joint {  // JointConfig and EntriesConfig, SinkhornConfig, tables of tokens
    uint32_t q_rank = 0, n_groups = 0, group_rank = 0;
    uint32_t n_without = 0;     // number of first layers without entries
    uint32_t entry_tokens = 0;  // of every second layer after them; others have entries of 4
    float entry_rope_base = 0;
    uint32_t n_streams = 0, n_iterations = 0;
    uint32_t n_tables = 0;  // number of first layers with tables of tokens
    float limit = 0;        // ExpertsConfig::limit
  };
  Joint joint = {};
  struct Adapters {  // AdapterSwitch; control tokens and their substitutes have ids in a row
    uint32_t n = 0, rank = 0, first_token = 0;
  };
  Adapters adapters = {};
};

std::span<const ModelPreset> model_presets();

// Makes the model "synthetic:PRESET[:TYPE[:LAYERS]]": random weights with the geometry of a real
// model, made when a tensor is read, and a byte-level toy vocabulary padded to the real size. TYPE
// is one of synthetic_types(): f32 to q2_k, llama.cpp's mixes q4_k_m and q5_k_m, gpt-oss's mxfp4,
// GPTQ's int4g128, DeepSeek's fp8; the default is q8_0. LAYERS keeps only that many first layers.
// The same name gives the same weights. Errors: kNotFound for an unknown preset (the message lists
// them), kInvalidArgument for a type.
Result<std::unique_ptr<ModelSource>> make_synthetic(std::string_view spec);

}  // namespace kvik
