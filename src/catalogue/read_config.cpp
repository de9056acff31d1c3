#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/limits.h"
#include "catalogue/model_config.h"
#include "catalogue/read_assistant.h"
#include "catalogue/read_eagle.h"
#include "catalogue/read_encoder.h"
#include "catalogue/read_experts.h"
#include "catalogue/read_recurrent.h"
#include "catalogue/rope_config.h"

namespace kvik {
namespace {

// Reads the sizes of MLA. Current files state the head sizes under keys of their own, and that of
// the cached K as "key_length". Files of 2024 state the head sizes only.
Result<void> read_latent(const KeyReader& keys, bool is_unrotated, AttentionConfig& a) {
  LatentConfig& l = a.latent;
  TRY_ASSIGN(l.rank, keys.count("attention.kv_lora_rank", kMaxHeadDim));
  TRY_ASSIGN(l.q_rank, keys.optional_count("attention.q_lora_rank", kMaxDim));
  TRY_ASSIGN(const uint32_t key_dim, keys.count("attention.key_length", 2 * kMaxHeadDim));
  TRY_ASSIGN(const uint32_t value_dim, keys.count("attention.value_length", kMaxHeadDim));
  TRY_ASSIGN(const uint32_t q_dim,
             keys.count("attention.key_length_mla", 2 * kMaxHeadDim, key_dim));
  TRY_ASSIGN(l.value_dim, keys.count("attention.value_length_mla", kMaxHeadDim, value_dim));
  if (!is_unrotated) {
    TRY_ASSIGN(l.qk_rope_head_dim, keys.count("rope.dimension_count", kMaxHeadDim));
  }
  a.n_kv_heads = 1;
  a.head_dim = l.rank + l.qk_rope_head_dim;
  if (l.qk_rope_head_dim >= q_dim || l.rank % 16 != 0 || a.head_dim > kMaxHeadDim) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("'{}' is {} with {} RoPE dimensions of {} in a head: expected a multiple of "
                    "16, at least one dimension without RoPE, and at most {} together",
                    keys.full("attention.kv_lora_rank"), l.rank, l.qk_rope_head_dim, q_dim,
                    kMaxHeadDim));
  }
  l.qk_nope_head_dim = q_dim - l.qk_rope_head_dim;
  return {};
}

constexpr std::string_view kQueryHeads = "attention.head_count";
constexpr std::string_view kKvHeads = "attention.head_count_kv";

// A key that states numbers of heads, and its value if the file does not have it; 0: an error.
struct HeadsKey {
  std::string_view name;
  uint32_t otherwise = 0;
};

// Reads the number of heads of each layer.
Result<std::vector<uint32_t>> read_heads_of_layers(const KeyReader& keys, const Family& family,
                                                   const ModelConfig& c, HeadsKey key) {
  TRY_ASSIGN(std::vector<uint32_t> all,
             keys.counts(key.name, c.n_listed_layers(), kMaxHeads, key.otherwise));
  const bool is_same = std::ranges::count(all, all.front()) == std::ssize(all);
  if (is_same || family.attention.lists_heads) return all;
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' lists {} and {}, expected one number of heads", keys.full(key.name),
                          std::ranges::min(all), std::ranges::max(all)));
}

// Reads the number of KV heads of attention layers; files of some families list 0 for other layers.
Result<uint32_t> read_n_kv_heads(const KeyReader& keys, const Family& family, const ModelConfig& c,
                                 uint32_t n_heads) {
  const bool is_list = family.recurrence.kind == Recurrence::kShortConv ||
                       family.recurrence.kind == Recurrence::kStateSpace ||
                       family.recurrence.kind == Recurrence::kSelective ||
                       family.recurrence.kind == Recurrence::kKda;
  if (!is_list) {
    TRY_ASSIGN(const auto all, read_heads_of_layers(keys, family, c, {kKvHeads, n_heads}));
    return all.front();
  }
  TRY_ASSIGN(const std::vector<uint32_t> by_layer,
             keys.counts_or_none("attention.head_count_kv", c.n_listed_layers(), kMaxHeads));
  // Heads of MTP layers are left out.
  const uint32_t most = std::ranges::max(std::span(by_layer).first(c.n_layers));
  if (most == 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' lists no KV heads at all, expected at least one attention layer",
                            keys.full("attention.head_count_kv")));
  }
  for (const uint32_t n : by_layer) {
    if (n == 0 || n == most) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' lists {} and {}, expected one number beside 0",
                            keys.full("attention.head_count_kv"), n, most));
  }
  return most;
}

// Reads the number of KV heads of the first attention layer, and the size of the widest MLP.
Result<void> read_sizes_of_layers(const KeyReader& keys, const Family& family, ModelConfig& c,
                                  AttentionConfig& a) {
  std::vector<uint32_t> n_kv_heads, ffn_dims;
  if (family.has_layer_kinds) {
    TRY_ASSIGN(n_kv_heads, keys.counts("attention.head_count_kv", c.n_listed_layers(), kMaxHeads));
    TRY_ASSIGN(ffn_dims, keys.counts("feed_forward_length", c.n_listed_layers(), kMaxDim));
    a.n_kv_heads = n_kv_heads.front();
    c.ffn_dim = std::ranges::max(ffn_dims);
  } else if (family.has_single_block_layers) {
    TRY_ASSIGN(ffn_dims, keys.counts_or_none("feed_forward_length", c.n_listed_layers(), kMaxDim));
    TRY_ASSIGN(a.n_kv_heads, read_n_kv_heads(keys, family, c, a.n_heads));
    n_kv_heads = {a.n_kv_heads};
    c.ffn_dim = std::ranges::max(ffn_dims);
  } else {
    // Some families in which every feed-forward block has experts omit this key.
    TRY_ASSIGN(const uint32_t expert_dim,
               keys.optional_count("expert_feed_forward_length", kMaxDim));
    const bool may_lack = (family.recurrence.kind != Recurrence::kNone && family.experts) ||
                          family.attention.is_joint;
    TRY_ASSIGN(c.ffn_dim, keys.count("feed_forward_length", kMaxDim, may_lack ? expert_dim : 0));
    TRY_ASSIGN(a.n_kv_heads, read_n_kv_heads(keys, family, c, a.n_heads));
    n_kv_heads = {a.n_kv_heads};
  }
  for (const uint32_t n_heads : n_kv_heads) {
    if (a.n_heads % n_heads == 0) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' is {}, expected a divisor of the {} heads",
                            keys.full("attention.head_count_kv"), n_heads, a.n_heads));
  }
  return {};
}

Result<void> read_geometry(const KeyReader& keys, const Family& family, ModelConfig& c,
                           AttentionConfig& a) {
  TRY_ASSIGN(c.n_layers, keys.count("block_count", kMaxLayers));
  TRY_ASSIGN(c.n_mtp_layers, keys.optional_count("nextn_predict_layers", c.n_layers - 1));
  c.n_layers -= c.n_mtp_layers;
  TRY_ASSIGN(c.model_dim, keys.count("embedding_length", kMaxDim));
  TRY_ASSIGN(const auto n_heads, read_heads_of_layers(keys, family, c, {kQueryHeads}));
  a.n_heads = n_heads.front();
  TRY(read_sizes_of_layers(keys, family, c, a));
  TRY_ASSIGN(c.n_ctx_train, keys.count("context_length", kMaxContext));
  if (family.attention.is_latent) return read_latent(keys, family.rope.is_absent, a);
  const uint32_t even_share = c.model_dim / a.n_heads;
  TRY_ASSIGN(a.head_dim, keys.count("attention.key_length", kMaxHeadDim, even_share));
  TRY_ASSIGN(const uint32_t value_dim,
             keys.count("attention.value_length", kMaxHeadDim, a.head_dim));
  if (family.attention.may_have_narrow_values && value_dim < a.head_dim) {
    a.value_dim = value_dim;
  } else if (value_dim != a.head_dim) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected the key length {}",
                            keys.full("attention.value_length"), value_dim, a.head_dim));
  }
  if (family.encoder && a.head_dim % 2 != 0) {  // others have RoPE, which checks it
    return fail(ErrorCode::kUnsupported,
                fmt::format("heads have {} dimensions ({} of '{}' for {} of '{}'), expected an "
                            "even number",
                            a.head_dim, c.model_dim, keys.full("embedding_length"), a.n_heads,
                            keys.full("attention.head_count")));
  }
  return {};
}

Result<void> read_ropes(const KeyReader& keys, const Family& family, ModelConfig& c,
                        uint32_t head_dim) {
  if (family.rope.is_absent) {
    TRY_ASSIGN(const uint32_t n_dims, keys.optional_count("rope.dimension_count", kMaxHeadDim));
    c.ropes = {RopeConfig()};
    if (n_dims == 0) return {};
    return fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is {}, expected 0", keys.full("rope.dimension_count"), n_dims));
  }
  TRY_ASSIGN(RopeConfig rope, read_rope(keys, family, {head_dim, c.n_ctx_train}));
  rope.pairing = family.rope.pairing;
  rope.yarn.is_whole = family.rope.is_yarn_whole;
  c.ropes = {rope};
  return {};
}

// Returns which layers have the sliding window: those that the file lists, all but every n-th one
// if it states a number n, and otherwise those of the family.
Result<std::vector<bool>> windowed_layers(const KeyReader& keys, const Family& family,
                                          const ModelConfig& c) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const AttentionTraits& traits = family.attention;
  std::vector<bool> windowed;
  if (traits.lists_windows && keys.is_list(kKey)) {
    TRY_ASSIGN(windowed, keys.flags(kKey, c.n_listed_layers()));
    windowed.resize(c.n_layers);
    return windowed;
  }
  uint32_t every = 0;
  if (traits.lists_windows) {
    TRY_ASSIGN(every, keys.optional_count(kKey, kMaxLayers));
  }
  const bool is_global_first = traits.global_every > 1 && traits.global_at == 0;
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    windowed.push_back(every ? i % every != (is_global_first ? 0 : every - 1)
                             : traits.is_windowed(i));
  }
  return windowed;
}

// Fills c.layers. All layers have the config `attention`, except for their windows and RoPE.
Result<void> read_layers(const KeyReader& keys, const Family& family,
                         const AttentionConfig& attention, ModelConfig& c) {
  std::optional<ExpertsConfig> experts;
  if (!family.experts || !family.experts->lists_sizes) {
    TRY_ASSIGN(experts, read_experts(keys, family, c));
  }
  TRY_ASSIGN(uint32_t n_dense, keys.optional_count("leading_dense_block_count", c.n_layers));
  if (experts && n_dense == 0) n_dense = family.experts->n_dense_layers;
  TRY_ASSIGN(const uint32_t step, keys.count("interleave_moe_layer_step", kMaxLayers, 1));
  TRY_ASSIGN(const uint32_t window, keys.optional_count("attention.sliding_window", kMaxContext));
  TRY_ASSIGN(const std::vector<bool> windowed, windowed_layers(keys, family, c));
  const bool has_local_rope = family.rope.is_window_unscaled && window > 0;
  if (has_local_rope) {
    const RopeConfig& scaled = c.ropes.front();
    RopeConfig local{.pairing = scaled.pairing, .has_divisors = false};
    TRY_ASSIGN(local.base, keys.positive("rope.freq_base_swa", double{scaled.base}));
    TRY_ASSIGN(local.n_dims,
               keys.count("rope.dimension_count_swa", attention.head_dim, scaled.n_dims));
    if (local.n_dims % 2 != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' is {}, expected an even number",
                              keys.full("rope.dimension_count_swa"), local.n_dims));
    }
    c.ropes.push_back(local);
  }
  if (family.rope.is_global_halved) {
    uint32_t& n_dims = c.ropes.front().n_dims;
    if (n_dims % 4 != 0) {
      return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {}, expected a multiple of 4",
                                                   keys.full("rope.dimension_count"), n_dims));
    }
    n_dims /= 2;
  }
  const MlpConfig mlp{.ffn_dim = c.ffn_dim,
                      .is_fused = family.has_fused_mlp,
                      .has_biases = family.mlp_bias != Presence::kNone,
                      .are_biases_optional = family.mlp_bias == Presence::kOptional};
  std::set<std::pair<bool, uint32_t>> kinds;
  TRY_ASSIGN(const auto n_heads, read_heads_of_layers(keys, family, c, {kQueryHeads}));
  std::vector<uint32_t> n_kv_heads(c.n_layers, attention.n_kv_heads);
  if (family.attention.lists_heads) {
    TRY_ASSIGN(n_kv_heads, read_heads_of_layers(keys, family, c, {kKvHeads, n_heads.front()}));
  }
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    AttentionConfig own = attention;
    own.n_heads = n_heads[i];
    own.n_kv_heads = n_kv_heads[i];
    kinds.emplace(windowed[i], own.n_kv_heads);
    if (own.n_heads % own.n_kv_heads != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' is {} in layer {}, expected a multiple of the {} KV heads",
                              keys.full(kQueryHeads), own.n_heads, i, own.n_kv_heads));
    }
    if (windowed[i]) {
      own.window = window;
      own.rope = has_local_rope ? 1 : 0;
    }
    if (!family.attention.is_rotated(i, window > 0 && !windowed[i])) own.has_rope = false;
    LayerConfig layer{.mixer = own, .feed_forward = mlp};
    if (experts && i >= n_dense && (i + 1) % step == 0) layer.feed_forward = *experts;
    c.layers.push_back(layer);
  }
  if (kinds.size() <= kMaxLayerKinds) return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("'{}' makes layers of {} kinds, expected at most {}", keys.full(kKvHeads),
                          kinds.size(), kMaxLayerKinds));
}

Result<void> read_scales(const KeyReader& keys, const Family& family, ModelConfig& c,
                         AttentionConfig& a) {
  const double usual_scale =
      family.attention.is_unscaled ? 1.0 : 1.0 / std::sqrt(static_cast<double>(a.head_dim));
  TRY_ASSIGN(a.scale, keys.real("attention.scale", usual_scale));
  if (a.latent.rank) {
    a.scale = c.ropes.front().score_scale / std::sqrt(static_cast<float>(a.latent.q_dim()));
  }
  if (family.scales_embedding) c.embedding_scale = std::sqrt(static_cast<float>(c.model_dim));
  if (family.has_logit_factor) {
    TRY_ASSIGN(c.logit_scale, keys.positive("logit_scale", 1.0));
  }
  if (!family.has_scales) return {};
  TRY_ASSIGN(c.embedding_scale, keys.positive("embedding_scale", 1.0));
  TRY_ASSIGN(c.residual_scale, keys.positive("residual_scale", 1.0));
  TRY_ASSIGN(const float logit_divisor, keys.positive("logit_scale", 1.0));
  c.logit_scale = 1.0f / logit_divisor;
  return {};
}

Result<uint32_t> read_n_vocab(const Metadata& metadata, const KeyReader& keys) {
  TRY_ASSIGN(const auto* tokens, metadata.get_strings("tokenizer.ggml.tokens"));
  return keys.count("vocab_size", kMaxVocabulary, tokens ? tokens->size() : 0);
}

}  // namespace

Result<ModelConfig> read_config(const Metadata& metadata, DraftHeadKeys head_keys) {
  TRY_ASSIGN(const auto architecture, metadata.get_string("general.architecture"));
  if (!architecture) {
    return fail(ErrorCode::kCorrupt, "metadata key 'general.architecture' is missing");
  }
  const Family* family = find_family(*architecture);
  if (!family) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("architecture '{}' is not supported; known: {}", *architecture,
                            known_architectures()));
  }

  ModelConfig c;
  c.architecture = *architecture;
  c.activation = family->activation;
  c.has_pre_norms = family->norms.has_pre_norms;
  c.has_post_norms = family->norms.has_post_norms;
  c.is_ffn_norm_post_attention = family->norms.is_ffn_norm_post_attention;
  c.is_ffn_norm_bare = family->norms.is_ffn_norm_bare;
  c.is_last_norm_embeddings = family->norms.is_last_norm_embeddings;
  c.norm = family->norms.kind;
  c.has_one_norm = family->norms.is_shared;
  c.has_positions = family->has_positions;
  c.has_head_bias = family->has_head_bias;
  const AttentionTraits& traits = family->attention;
  AttentionConfig attention{.has_qkv_bias = traits.qkv_bias != Presence::kNone,
                            .has_output_bias = traits.output_bias != Presence::kNone,
                            .has_sinks = traits.has_sinks,
                            .is_fused = traits.is_fused,
                            .output_gate = traits.output_gate,
                            .gate_function = traits.gate_function,
                            .qk_norm = traits.qk_norm,
                            .is_norm_after_rope = traits.is_norm_after_rope,
                            .is_qkv_bias_optional = traits.qkv_bias == Presence::kOptional,
                            .is_output_bias_optional = traits.output_bias == Presence::kOptional,
                            .is_qk_norm_optional = traits.is_qk_norm_optional};
  const KeyReader keys(metadata, *architecture);
  TRY_ASSIGN(c.has_parallel_halves,
             keys.flag("use_parallel_residual", family->has_parallel_halves));
  TRY_ASSIGN(const auto name, metadata.get_string("general.name"));
  c.name = name.value_or(*architecture);
  TRY(read_geometry(keys, *family, c, attention));
  TRY_ASSIGN(c.n_vocab, read_n_vocab(metadata, keys));
  TRY_ASSIGN(const float layer_eps, keys.real("attention.layer_norm_epsilon", 1e-5));
  TRY_ASSIGN(c.norm_eps,
             keys.real("attention.layer_norm_rms_epsilon",
                       family->has_single_block_layers ? static_cast<double>(layer_eps) : 1e-5));
  if (c.norm != NormKind::kRms) c.norm_eps = layer_eps;
  const double post_eps = family->norms.post_eps;
  c.post_norm_eps = post_eps != 0 ? static_cast<float>(post_eps) : c.norm_eps;
  c.has_embedding_norm = family->norms.of_embedding;
  TRY_ASSIGN(attention.soft_cap, keys.real("attn_logit_softcapping", 0));
  TRY_ASSIGN(c.logit_soft_cap, keys.real("final_logit_softcapping", 0));
  const uint32_t rotated =
      attention.latent.rank ? attention.latent.qk_rope_head_dim : attention.head_dim;
  TRY(read_ropes(keys, *family, c, rotated));
  TRY(read_scales(keys, *family, c, attention));
  attention.has_rope = !family->rope.is_absent;
  if (family->rope.may_be_absent) {
    TRY_ASSIGN(attention.has_rope, keys.flag("rope.scaling.finetuned", false));
  }
  TRY(read_layers(keys, *family, attention, c));
  TRY(read_recurrent_layers(keys, *family, c));
  TRY_ASSIGN(c.pooling, read_pooling(keys));
  if (c.pooling == Pooling::kRank && !family->encoder) {
    TRY_ASSIGN(c.reranker, read_reranker(metadata, keys));
  }
  if (family->encoder) {
    c.encoder = family->encoder;
    if (!c.encoder->has_rms_norms) c.norm_eps = layer_eps;
    TRY(read_encoder(metadata, keys, c));
  }
  if (family->finish) TRY(family->finish(keys, c));
  const bool has_head = head_keys == DraftHeadKeys::kRead;
  if (has_head && has_eagle_head(metadata)) {
    TRY(add_eagle_head(metadata, c));
  } else if (has_head && has_assistant(metadata)) {
    TRY(add_assistant(metadata, c));
  } else if (family->mtp_layer && c.n_mtp_layers > 0) {
    TRY_ASSIGN(const LayerConfig layer, family->mtp_layer(keys, c));
    c.layers.push_back(layer);
    c.has_mtp_head = true;
    c.is_mtp_hidden_raw = family->is_mtp_hidden_raw;
    c.lacks_mtp_output_norm = family->lacks_mtp_output_norm;
    TRY_ASSIGN(const bool is_together, keys.flag("mtp.norms_streams_together", false));
    c.mtp_streams = family->mtp_streams;
    if (c.mtp_streams && is_together) c.mtp_streams = StreamNorm::kTogether;
  }
  TRY_ASSIGN(c.n_ctx_short_rope,
             keys.optional_count("rope.scaling.original_context_length", kMaxContext));
  return c;
}

Result<LayerConfig> usual_mtp_layer(const KeyReader&, const ModelConfig& config) {
  return LayerConfig{.mixer = config.attention(),
                     .feed_forward = config.layers.back().feed_forward};
}

Result<LayerConfig> dense_mtp_layer(const KeyReader&, const ModelConfig& config) {
  return LayerConfig{.mixer = config.attention(),
                     .feed_forward = MlpConfig{.ffn_dim = config.ffn_dim}};
}

}  // namespace kvik
