#include "catalogue/read_eagle.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/quantity.h"
#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/limits.h"
#include "catalogue/rope_config.h"

namespace kvik {
namespace {

// EAGLE-3 heads are layers of this family.
constexpr std::string_view kLayerFamily = "llama";
constexpr size_t kMaxTaps = 8;

// Checks that the layer of the head computes what it computed in training: the model's norms apply
// to it, and nothing scales its input or output.
Result<void> check_model(const ModelConfig& c) {
  const bool fits = c.norm == NormKind::kRms && c.residual_scale == 1.0f &&
                    c.embedding_scale == 1.0f && !c.has_embedding_norm && !c.encoder && !c.hyper;
  if (fits) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("models of architecture '{}' scale embeddings, or have layer norms or "
                          "several residual streams, expected RMS norms, unscaled embeddings and "
                          "one stream for an EAGLE-3 head",
                          c.architecture));
}

// Returns the layers whose inputs the head reads. Without a key, they are a low, a middle and a
// high one (Li et al. 2025).
Result<std::vector<uint32_t>> read_taps(const Metadata& metadata, const KeyReader& keys,
                                        const ModelConfig& c) {
  TRY_ASSIGN(const auto stated, metadata.get_ints(keys.full("extract_layers")));
  if (!stated || stated->empty()) {
    if (c.n_layers >= 6) return std::vector<uint32_t>{2, c.n_layers / 2, c.n_layers - 3};
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is missing, expected the numbers of layers of a model of {}",
                            keys.full("extract_layers"), c.n_layers));
  }
  std::vector<uint32_t> taps;
  for (const int64_t layer : *stated) {
    if (layer < 0 || layer > c.n_layers || stated->size() > kMaxTaps) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("'{}' has {} numbers, among them {}: expected at most {} numbers of "
                      "layers, 0 to {}",
                      keys.full("extract_layers"), stated->size(), layer, kMaxTaps, c.n_layers));
    }
    taps.push_back(static_cast<uint32_t>(layer));
  }
  return taps;
}

Result<std::shared_ptr<const std::vector<uint32_t>>> read_tokens(const Metadata& metadata,
                                                                 const ModelConfig& c) {
  TRY_ASSIGN(const auto stated, metadata.get_ints(kEagleTokens));
  if (!stated) return nullptr;
  auto tokens = std::make_shared<std::vector<uint32_t>>();
  for (const int64_t token : *stated) {
    if (token < 0 || token >= c.n_vocab) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("row {} of the EAGLE-3 head's output is token {}, expected one of "
                              "the model's {} tokens (tensor 'd2t')",
                              tokens->size(), token, c.n_vocab));
    }
    tokens->push_back(static_cast<uint32_t>(token));
  }
  return tokens;
}

Result<AttentionConfig> read_attention(const KeyReader& keys, const ModelConfig& c) {
  AttentionConfig a{.has_qkv_bias = true, .is_qkv_bias_optional = true};
  TRY_ASSIGN(a.n_heads, keys.count("attention.head_count", kMaxHeads));
  TRY_ASSIGN(a.n_kv_heads, keys.count("attention.head_count_kv", kMaxHeads, a.n_heads));
  TRY_ASSIGN(a.head_dim, keys.count("attention.key_length", kMaxHeadDim, c.model_dim / a.n_heads));
  if (a.n_heads % a.n_kv_heads != 0) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {}, expected a divisor of the {} heads",
                            keys.full("attention.head_count_kv"), a.n_kv_heads, a.n_heads));
  }
  a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  return a;
}

}  // namespace

bool has_eagle_head(const Metadata& metadata) {
  return metadata.contains(fmt::format("{}.attention.head_count", kEagleArchitecture));
}

Result<void> add_eagle_head(const Metadata& metadata, ModelConfig& c) {
  TRY(check_model(c));
  const KeyReader keys(metadata, kEagleArchitecture);
  TRY_ASSIGN(const uint32_t n_layers, keys.count("block_count", kMaxLayers, 1));
  TRY_ASSIGN(const uint32_t dim, keys.count("embedding_length", kMaxDim));
  TRY_ASSIGN(const uint32_t target_dim, keys.count("target_hidden_size", kMaxDim, dim));
  if (n_layers != 1 || dim != c.model_dim || target_dim != c.model_dim) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the EAGLE-3 head has {} of {} dimensions, for a model of {}: "
                            "expected one layer of the model's {}",
                            counted(n_layers, "layer"), dim, target_dim, c.model_dim));
  }
  EagleConfig eagle;
  TRY_ASSIGN(eagle.taps, read_taps(metadata, keys, c));
  TRY_ASSIGN(eagle.is_residual_normed, keys.flag("norm_before_residual", false));
  TRY_ASSIGN(eagle.tokens, read_tokens(metadata, c));
  TRY_ASSIGN(AttentionConfig attention, read_attention(keys, c));
  const Family* family = find_family(kLayerFamily);
  CHECK(family);
  TRY_ASSIGN(RopeConfig rope, read_rope(keys, *family, {attention.head_dim, c.n_ctx_train}));
  TRY_ASSIGN(const auto is_halved, metadata.get_bool(kEagleHalves));
  rope.pairing = is_halved.value_or(false) ? RopePairing::kHalves : RopePairing::kInterleaved;
  rope.has_divisors = false;
  attention.rope = static_cast<uint32_t>(c.ropes.size());
  MlpConfig mlp;
  TRY_ASSIGN(mlp.ffn_dim, keys.count("feed_forward_length", kMaxDim));
  c.ropes.push_back(rope);
  c.layers.push_back({.mixer = attention, .feed_forward = mlp});
  c.eagle = std::move(eagle);
  c.has_mtp_head = c.is_mtp_hidden_raw = true;
  return {};
}

}  // namespace kvik
