#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "model/key_reader.h"
#include "model/rope_config.h"

namespace kvik {
namespace {

// What a family's files do not say themselves.
struct Family {
  const char* name;
  RopePairing pairing = RopePairing::kInterleaved;
  Activation activation = Activation::kSilu;
  bool has_qkv_bias = false;
  QkNorm qk_norm = QkNorm::kNone;
  bool has_pre_norms = true;
  bool has_post_norms = false;
  bool is_fused = false;           // QKV, and gate with up
  bool scales_embedding = false;   // by sqrt(model_dim)
  bool scales_more = false;        // embedding, residual and logits, by keys of the file
  uint32_t global_every = 1;       // one layer in so many sees everything; 1: the window is for all
  uint32_t global_at = 0;          // layer i is global where i % global_every == global_at
  float local_rope_base = 0;       // of windowed layers; 0: as the others
  uint32_t wide_scale_layers = 0;  // the member of so many layers scales q·k by the heads' share of
                                   // model_dim in place of head_dim
  bool has_experts = false;  // may be, by a key of the file
  bool normalizes_experts = true;
  bool has_shared_gate = false;
};

constexpr Family kFamilies[] = {
    {.name = "llama", .has_experts = true},
    {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_bias = true},
    {.name = "qwen2moe",
     .pairing = RopePairing::kHalves,
     .has_qkv_bias = true,
     .has_experts = true,
     .normalizes_experts = false,
     .has_shared_gate = true},
    {.name = "qwen3", .pairing = RopePairing::kHalves, .qk_norm = QkNorm::kHead},
    {.name = "qwen3moe",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kHead,
     .has_experts = true},
    {.name = "gemma2",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 2,
     .global_at = 1,
     .wide_scale_layers = 46},
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .qk_norm = QkNorm::kHead,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 6,
     .global_at = 5,
     .local_rope_base = 10000.0f,
     .wide_scale_layers = 62},
    {.name = "phi3", .pairing = RopePairing::kHalves, .is_fused = true},
    {.name = "granite", .scales_more = true},
    {.name = "olmo2",
     .pairing = RopePairing::kHalves,
     .qk_norm = QkNorm::kRow,
     .has_pre_norms = false,
     .has_post_norms = true},
};

// No model that exists comes near these; beyond them a product could overflow 32 bits.
constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxDim = 1 << 20;
constexpr uint64_t kMaxContext = 1u << 30;
constexpr uint64_t kMaxExperts = 1024;

// Values of expert_gating_func.
constexpr uint32_t kSoftmaxGating = 1;
constexpr uint32_t kSigmoidGating = 2;

std::string families_with_experts() {
  std::string names;
  for (const Family& family : kFamilies) {
    if (family.has_experts) names += fmt::format("{}{}", names.empty() ? "" : ", ", family.name);
  }
  return names;
}

Result<void> read_geometry(const KeyReader& keys, ModelConfig& c) {
  TRY_ASSIGN(c.n_layers, keys.count("block_count", kMaxLayers));
  TRY_ASSIGN(c.model_dim, keys.count("embedding_length", kMaxDim));
  TRY_ASSIGN(c.ffn_dim, keys.count("feed_forward_length", kMaxDim));
  TRY_ASSIGN(c.n_heads, keys.count("attention.head_count", 4096));
  TRY_ASSIGN(c.n_kv_heads, keys.count("attention.head_count_kv", 4096, c.n_heads));
  TRY_ASSIGN(c.n_ctx_train, keys.count("context_length", kMaxContext));
  if (c.n_heads % c.n_kv_heads != 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {}, expected a divisor of the {} heads",
                            keys.full("attention.head_count_kv"), c.n_kv_heads, c.n_heads));
  }
  const uint32_t even_share = c.model_dim / c.n_heads;
  TRY_ASSIGN(c.head_dim, keys.count("attention.key_length", 1024, even_share));
  TRY_ASSIGN(const uint32_t value_dim, keys.count("attention.value_length", 1024, c.head_dim));
  if (value_dim != c.head_dim) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected the key length {}",
                            keys.full("attention.value_length"), value_dim, c.head_dim));
  }
  return {};
}

Result<void> read_experts(const KeyReader& keys, const Family& family, ModelConfig& c) {
  TRY_ASSIGN(const uint32_t n_experts, keys.optional_count("expert_count", kMaxExperts));
  if (n_experts == 0) return {};
  if (!family.has_experts) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}: mixtures of experts are supported in {}, dense models in "
                            "all families",
                            keys.full("expert_count"), n_experts, families_with_experts()));
  }
  ExpertsConfig& e = c.experts;
  e = {.n_experts = n_experts,
       .normalizes = family.normalizes_experts,
       .has_shared_gate = family.has_shared_gate};
  TRY_ASSIGN(e.n_used, keys.count("expert_used_count", n_experts));
  TRY_ASSIGN(e.ffn_dim, keys.count("expert_feed_forward_length", kMaxDim, c.ffn_dim));
  TRY_ASSIGN(e.shared_ffn_dim, keys.optional_count("expert_shared_feed_forward_length", kMaxDim));
  TRY_ASSIGN(e.normalizes, keys.flag("expert_weights_norm", e.normalizes));
  TRY_ASSIGN(e.weight_scale, keys.real("expert_weights_scale", 1.0));
  if (e.weight_scale == 0) e.weight_scale = 1.0f;  // how llama.cpp writes that there is none
  TRY_ASSIGN(const uint32_t scoring, keys.count("expert_gating_func", UINT32_MAX, kSoftmaxGating));
  if (scoring != kSoftmaxGating && scoring != kSigmoidGating) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("'{}' is {}, expected {} (softmax) or {} (sigmoid)",
                    keys.full("expert_gating_func"), scoring, kSoftmaxGating, kSigmoidGating));
  }
  e.scoring = scoring == kSigmoidGating ? ExpertScoring::kSigmoid : ExpertScoring::kSoftmax;
  return {};
}

// Which layers see a window, and how each layer's heads turn.
Result<void> read_layers(const KeyReader& keys, const Family& family, ModelConfig& c) {
  TRY_ASSIGN(const uint32_t window, keys.optional_count("attention.sliding_window", kMaxContext));
  TRY_ASSIGN(RopeConfig rope, read_rope(keys, c.head_dim, c.n_ctx_train));
  rope.pairing = family.pairing;
  c.ropes = {rope};
  if (family.local_rope_base > 0) {
    c.ropes.push_back(rope);
    c.ropes.back().base = family.local_rope_base;
    c.ropes.back().position_scale = 1.0f;
  }
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    const bool is_global = family.global_every > 1 && i % family.global_every == family.global_at;
    const bool is_local = window > 0 && !is_global;
    c.layers.push_back({.window = is_local ? window : 0,
                        .rope = is_local && family.local_rope_base > 0 ? 1u : 0u});
  }
  return {};
}

Result<void> read_scales(const KeyReader& keys, const Family& family, ModelConfig& c) {
  const bool is_wide = family.wide_scale_layers == c.n_layers;
  const double scaled_dim =
      is_wide ? static_cast<double>(c.model_dim) / c.n_heads : static_cast<double>(c.head_dim);
  TRY_ASSIGN(c.attention_scale, keys.real("attention.scale", 1.0 / std::sqrt(scaled_dim)));
  if (family.scales_embedding) c.embedding_scale = std::sqrt(static_cast<float>(c.model_dim));
  if (!family.scales_more) return {};
  TRY_ASSIGN(c.embedding_scale, keys.positive("embedding_scale", 1.0));
  TRY_ASSIGN(c.residual_scale, keys.positive("residual_scale", 1.0));
  TRY_ASSIGN(const float logit_divisor, keys.positive("logit_scale", 1.0));
  c.logit_scale = 1.0f / logit_divisor;
  return {};
}

Result<uint32_t> read_n_vocab(const Metadata& metadata, const KeyReader& keys) {
  TRY_ASSIGN(const auto* tokens, metadata.get_strings("tokenizer.ggml.tokens"));
  return keys.count("vocab_size", 1 << 24, tokens ? tokens->size() : 0);
}

}  // namespace

std::string known_architectures() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += names.empty() ? "" : ", ";
    names += family.name;
  }
  return names;
}

Result<ModelConfig> read_config(const Metadata& metadata) {
  TRY_ASSIGN(const auto architecture, metadata.get_string("general.architecture"));
  if (!architecture) {
    return fail(ErrorCode::kCorrupt, "metadata key 'general.architecture' is missing");
  }
  const Family* family = nullptr;
  for (const Family& f : kFamilies) {
    if (*architecture == f.name) family = &f;
  }
  if (!family) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("architecture '{}' is not supported; known: {}", *architecture,
                            known_architectures()));
  }

  ModelConfig c;
  c.architecture = *architecture;
  const KeyReader keys(metadata, *architecture);
  TRY_ASSIGN(const auto name, metadata.get_string("general.name"));
  c.name = name.value_or(*architecture);
  TRY(read_geometry(keys, c));
  TRY_ASSIGN(c.n_vocab, read_n_vocab(metadata, keys));
  TRY_ASSIGN(c.norm_eps, keys.real("attention.layer_norm_rms_epsilon", 1e-5));
  TRY_ASSIGN(c.attention_soft_cap, keys.real("attn_logit_softcapping", 0));
  TRY_ASSIGN(c.logit_soft_cap, keys.real("final_logit_softcapping", 0));
  c.activation = family->activation;
  c.has_qkv_bias = family->has_qkv_bias;
  c.qk_norm = family->qk_norm;
  c.has_pre_norms = family->has_pre_norms;
  c.has_post_norms = family->has_post_norms;
  c.has_fused_qkv = family->is_fused;
  c.has_fused_gate_up = family->is_fused;
  TRY(read_scales(keys, *family, c));
  TRY(read_experts(keys, *family, c));
  TRY(read_layers(keys, *family, c));
  TRY_ASSIGN(c.n_ctx_short_rope,
             keys.optional_count("rope.scaling.original_context_length", kMaxContext));
  return c;
}

}  // namespace kvik
