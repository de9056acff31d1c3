#include "model/config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace kvik {
namespace {

// What a family's files do not say themselves.
struct Family {
  const char* name;
  RopePairing pairing = RopePairing::kInterleaved;
  Activation activation = Activation::kSilu;
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool has_post_norms = false;
  bool scales_embedding = false;  // by sqrt(model_dim)
  uint32_t global_every = 1;      // one layer in so many sees everything; 1: the window is for all
  uint32_t global_at = 0;         // layer i is global where i % global_every == global_at
  float local_rope_base = 0;      // of windowed layers; 0: as the others
};

constexpr std::array<Family, 5> kFamilies = {{
    {.name = "llama"},
    {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_bias = true},
    {.name = "qwen3", .pairing = RopePairing::kHalves, .has_qk_norm = true},
    {.name = "gemma2",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 2,
     .global_at = 1},
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGeluTanh,
     .has_qk_norm = true,
     .has_post_norms = true,
     .scales_embedding = true,
     .global_every = 6,
     .global_at = 5,
     .local_rope_base = 10000.0f},
}};

// No model that exists comes near these; beyond them a product could overflow 32 bits.
constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxDim = 1 << 20;
constexpr uint64_t kMaxContext = 1u << 30;

// Reads "<architecture>.<key>" with its bounds.
class KeyReader {
 public:
  KeyReader(const Metadata& metadata, std::string prefix)
      : metadata_(metadata), prefix_(std::move(prefix)) {}

  std::string full(std::string_view key) const { return fmt::format("{}.{}", prefix_, key); }

  // A whole number in [1, max]; `fallback` 0 means that the key must be there.
  Result<uint32_t> count(std::string_view key, uint64_t max, uint64_t fallback = 0) const {
    TRY_ASSIGN(const auto value, metadata_.get_uint(full(key)));
    const uint64_t n = value.value_or(fallback);
    if (!value && fallback == 0) {
      return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' is missing", full(key)));
    }
    if (n < 1 || n > max) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' is {}, expected 1 to {}", full(key), n, max));
    }
    return static_cast<uint32_t>(n);
  }

  // As count, but 0 is allowed and the default.
  Result<uint32_t> optional_count(std::string_view key, uint64_t max) const {
    TRY_ASSIGN(const auto value, metadata_.get_uint(full(key)));
    if (value.value_or(0) == 0) return 0u;
    return count(key, max);
  }

  Result<float> real(std::string_view key, double fallback) const {
    TRY_ASSIGN(const auto value, metadata_.get_float(full(key)));
    const double x = value.value_or(fallback);
    // A NaN fails both comparisons. What a float cannot hold would be an infinity further down.
    if (!(x >= 0 && x <= std::numeric_limits<float>::max())) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key '{}' is {}, expected a number ≥ 0", full(key), x));
    }
    return static_cast<float>(x);
  }

 private:
  const Metadata& metadata_;
  std::string prefix_;
};

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
  TRY_ASSIGN(const uint32_t n_experts, keys.optional_count("expert_count", 65536));
  if (n_experts > 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}: mixtures of experts are not supported, dense models are",
                            keys.full("expert_count"), n_experts));
  }
  return {};
}

Result<RopeConfig> read_rope(const Metadata& metadata, const KeyReader& keys, const Family& family,
                             uint32_t head_dim) {
  RopeConfig rope{.pairing = family.pairing};
  TRY_ASSIGN(rope.base, keys.real("rope.freq_base", 10000.0));
  TRY_ASSIGN(rope.n_dims, keys.count("rope.dimension_count", head_dim, head_dim));
  if (rope.n_dims % 2 != 0 || rope.base <= 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("rope over {} dimensions with base {}: expected an even number of "
                            "dimensions and a base > 0",
                            rope.n_dims, rope.base));
  }
  TRY_ASSIGN(const auto scaling, metadata.get_string(keys.full("rope.scaling.type")));
  const std::string type = scaling.value_or("none");
  if (type == "linear") {
    TRY_ASSIGN(const float factor, keys.real("rope.scaling.factor", 1.0));
    rope.position_scale = 1.0f / factor;
    if (!std::isfinite(rope.position_scale)) {
      return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected a number > 0",
                                                   keys.full("rope.scaling.factor"), factor));
    }
  } else if (type != "none") {
    return fail(ErrorCode::kUnsupported, fmt::format("'{}' is '{}', expected none or linear",
                                                     keys.full("rope.scaling.type"), type));
  }
  return rope;
}

// Which layers see a window, and how each layer's heads turn.
Result<void> read_layers(const Metadata& metadata, const KeyReader& keys, const Family& family,
                         ModelConfig& c) {
  TRY_ASSIGN(const uint32_t window, keys.optional_count("attention.sliding_window", kMaxContext));
  TRY_ASSIGN(const RopeConfig rope, read_rope(metadata, keys, family, c.head_dim));
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
  TRY_ASSIGN(c.attention_scale, keys.real("attention.scale", 1.0 / std::sqrt(c.head_dim)));
  if (family->scales_embedding) c.embedding_scale = std::sqrt(static_cast<float>(c.model_dim));
  c.activation = family->activation;
  c.has_qkv_bias = family->has_qkv_bias;
  c.has_qk_norm = family->has_qk_norm;
  c.has_post_norms = family->has_post_norms;
  TRY(read_layers(metadata, keys, *family, c));
  return c;
}

}  // namespace kvik
