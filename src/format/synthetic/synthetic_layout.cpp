#include "format/synthetic/synthetic_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "catalogue/family.h"
#include "format/ngram_numbers.h"
#include "format/weight_mix.h"

namespace kvik {
namespace {

constexpr uint32_t kNumberOfSpecials = 4;
constexpr uint32_t kToyTokens = kNumberOfSpecials + 256;
constexpr double kUnusedScore = -1e4;
constexpr double kDecayBound = -1.0;  // KdaConfig::bound
constexpr float kVectorDeviation = 0.1f;
constexpr double kCutoffOf95Percent = 1.6448536269514722;  // quantile of the normal distribution
// Spreads the logits, because sampling from nearly equal logits tests little.
constexpr float kHeadGain = 4.0f;

// token_type numbers of GGUF vocabularies.
enum TokenKind : int64_t { kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6 };

const Family& family_of(const ModelPreset& preset) {
  const Family* family = find_family(preset.architecture);
  CHECK(family != nullptr);
  return *family;
}

// Adds the parameters of xIELU, which differ by layer and whose keys have no prefix.
void add_xielu(Metadata& metadata, uint32_t n_layers) {
  std::vector<double> positive, negative;
  for (uint32_t i = 0; i < n_layers; ++i) {
    positive.push_back(0.25 + 0.5 * i);
    negative.push_back(0.25 * i - 0.25);
  }
  metadata.insert("xielu.alpha_p", std::move(positive));
  metadata.insert("xielu.alpha_n", std::move(negative));
  metadata.insert("xielu.beta", std::vector<double>(n_layers, 0.5));
  metadata.insert("xielu.eps", std::vector<double>(n_layers, -0x1p-20));
}

void add_vocabulary(Metadata& metadata, uint32_t n_vocab) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "<pad>"};
  std::vector<int64_t> kinds = {kUnknown, kControl, kControl, kControl};
  for (uint32_t byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  kinds.resize(kToyTokens, kByte);
  std::vector<double> scores(kToyTokens, 0.0);
  CHECK(n_vocab >= kToyTokens);
  for (uint32_t i = 0; i < n_vocab - kToyTokens; ++i)
    tokens.push_back(fmt::format("<unused_{}>", i));
  scores.resize(n_vocab, kUnusedScore);
  kinds.resize(n_vocab, kUnused);
  metadata.insert("tokenizer.ggml.model", std::string("llama"));
  metadata.insert("tokenizer.ggml.tokens", std::move(tokens));
  metadata.insert("tokenizer.ggml.scores", std::move(scores));
  metadata.insert("tokenizer.ggml.token_type", std::move(kinds));
  metadata.insert("tokenizer.ggml.bos_token_id", uint64_t{1});
  metadata.insert("tokenizer.ggml.eos_token_id", uint64_t{2});
  metadata.insert("tokenizer.ggml.unknown_token_id", uint64_t{0});
}

// Generates the tensors that the catalogue lists for a preset.
class TensorMaker {
 public:
  TensorMaker(const ModelPreset& preset, const SyntheticType& type)
      : preset_(preset), type_(type), family_(family_of(preset)) {}

  SyntheticTensor make(const TensorSpec& spec) const {
    const TensorKind kind = kind_of(spec.id.role);
    const bool is_norm = kind == TensorKind::kNorm || kind == TensorKind::kDivisors;
    const bool is_vector = spec.shape.size() == 1 || is_norm || kind == TensorKind::kDecay;
    const float decay = family_.recurrence.is_kda_bounded ? 1.0f : -1.0f;
    const float middle = kind == TensorKind::kDecay ? decay : is_norm ? 1.0f : 0.0f;
    const ElementType type = is_vector ? ElementType::kF32 : matrix_type(spec);
    const float columns = static_cast<float>(spec.shape.back());
    const auto n_bytes = bytes_of(type, spec.shape);
    CHECK(n_bytes.has_value());
    if (kind == TensorKind::kNumbers) {
      return {.info = {name_of(spec.id), type, spec.shape, *n_bytes},
              .n_numbers = preset_.experts.n};
    }
    return {.info = {name_of(spec.id), type, spec.shape, *n_bytes},
            .mean = is_vector ? middle * vector_scale(spec) : 0.0f,
            .deviation = is_vector ? kVectorDeviation * vector_scale(spec)
                                   : gain(spec.id.role) / std::sqrt(columns)};
  }

  // Returns whether the preset has an optional tensor.
  bool has(TensorRole role) const {
    if (role == TensorRole::kHead) return !preset_.tied_head;
    if (role == TensorRole::kQNorm || role == TensorRole::kKNorm) return preset_.has_qk_norm;
    if (role == TensorRole::kCorrectionBias) return preset_.has_correction_bias;
    if (role == TensorRole::kV) return !preset_.kinds.is_k_v;
    // Most models of these families have no biases.
    if (kind_of(role) == TensorKind::kBias) return family_.mlp_bias == Presence::kNone;
    if (is_of_layer(role)) return true;
    const RopeDivisors divisors = preset_.rope.divisors;
    return divisors ==
           (role == TensorRole::kRopeDivisors ? RopeDivisors::kOneSet : RopeDivisors::kTwoSets);
  }

 private:
  // Returns the factor of the values of a vector. In families without a scale of q·k, K's norm
  // keeps the scores small.
  float vector_scale(const TensorSpec& spec) const {
    const bool scales = family_.attention.is_unscaled && spec.id.role == TensorRole::kKNorm;
    return scales ? 1.0f / std::sqrt(static_cast<float>(spec.shape.back())) : 1.0f;
  }

  // Returns the factor of the standard deviation of a matrix. That of the embedding gives the input
  // of the first layer the standard deviation 1, even if the forward pass scales it.
  float gain(TensorRole role) const {
    if (role == TensorRole::kHead) return kHeadGain;
    if (role == TensorRole::kPerLayerEmbedding) {
      const bool is_table = preset_.hyper.n_streams > 0;
      return std::sqrt(static_cast<float>(is_table ? preset_.hyper.row_dim : preset_.n_layers));
    }
    if (role != TensorRole::kEmbedding || family_.scales_embedding) return 1.0f;
    const float scale = preset_.scales.embedding;
    return std::sqrt(static_cast<float>(preset_.model_dim)) / (scale != 0 ? scale : 1.0f);
  }

  // Returns the type of a matrix. Rows that are not whole super-blocks become q8_0 (llama.cpp also
  // uses q5_0 and q5_1), and rows that are not whole blocks become f16.
  ElementType matrix_type(const TensorSpec& spec) const {
    const auto [role, layer] = spec.id;
    if (kind_of(role) == TensorKind::kNumbers) return ElementType::kI32;
    if (kind_of(role) == TensorKind::kRouting || kind_of(role) == TensorKind::kBias ||
        kind_of(role) == TensorKind::kConvKernel || kind_of(role) == TensorKind::kLoraFactor) {
      return ElementType::kF32;
    }
    const bool is_fp4 = type_.most == ElementType::kMXFP4 || type_.most == ElementType::kNvFp4;
    if (is_fp4 && !has_fp4(role)) return ElementType::kQ8_0;
    // FP8 folders have bf16 for these tensors, too.
    if (type_.most == ElementType::kFp8 && !is_of_layer(role)) return ElementType::kBF16;
    const bool is_head = role == (preset_.tied_head ? TensorRole::kEmbedding : TensorRole::kHead);
    const bool more_bits =
        is_head || (is_sensitive(role) && has_more_bits(layer, preset_.n_layers));
    const uint64_t n_cols = spec.shape.back();
    ElementType type = more_bits ? type_.more : type_.most;
    if (traits(type).block_elements == 256 && n_cols % 256 != 0) type = ElementType::kQ8_0;
    if (type == ElementType::kFp8 && n_cols % 128 != 0) type = ElementType::kFp8G32;
    return n_cols % traits(type).block_elements == 0 ? type : ElementType::kF16;
  }

  // Returns whether matrices of the role have 4 bits. As in WeightMix, these are experts only, or
  // all layers of a model without experts.
  bool has_fp4(TensorRole role) const {
    return preset_.experts.n > 0 ? kind_of(role) == TensorKind::kExperts : is_of_layer(role);
  }

  const ModelPreset& preset_;
  const SyntheticType& type_;
  const Family& family_;
};

// Rounds to 32 bits as in a GGUF file.
double as_stored(double value) { return static_cast<double>(static_cast<float>(value)); }

using AddKey = std::function<void(std::string_view key, Metadata::Value value)>;

void add_expert_keys(const ModelPreset& p, const AddKey& add) {
  add("expert_count", uint64_t{p.experts.n});
  add("expert_used_count", uint64_t{p.experts.n_used});
  add("expert_feed_forward_length", uint64_t{p.experts.ffn_dim});
  if (p.experts.n_dense_layers != 0) {
    add("leading_dense_block_count", uint64_t{p.experts.n_dense_layers});
  }
  if (p.experts.weight_scale != 0) add("expert_weights_scale", double{p.experts.weight_scale});
  if (p.experts.n_groups != 0) {
    add("expert_group_count", uint64_t{p.experts.n_groups});
    add("expert_group_used_count", uint64_t{p.experts.n_groups_used});
  }
  if (p.experts.every != 0) add("interleave_moe_layer_step", uint64_t{p.experts.every});
  if (p.experts.latent_dim != 0) add("moe_latent_size", uint64_t{p.experts.latent_dim});
  if (p.experts.normalizes) add("expert_weights_norm", true);
  if (p.experts.is_sigmoid) add("expert_gating_func", uint64_t{2});
  if (p.experts.shared_ffn_dim == 0) return;
  add("expert_shared_feed_forward_length", uint64_t{p.experts.shared_ffn_dim});
}

void add_latent_layer_keys(const ModelPreset& p, const AddKey& add) {
  std::vector<bool> rotated;
  std::vector<uint64_t> sources;
  uint64_t last[2] = {};  // layer with latent K of its own, without and with RoPE
  for (uint32_t i = 0; i < p.n_layers; ++i) {
    const bool is_rotated = p.latent.is_rotated(i);
    if (!p.latent.shares(i)) last[is_rotated] = i;
    rotated.push_back(is_rotated);
    sources.push_back(last[is_rotated]);
  }
  add("rope.layers", std::move(rotated));
  if (p.latent.sharing_layers != 0) add("attention.kv_source_layers", std::move(sources));
}

void add_latent_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Latent& l = p.latent;
  add("attention.kv_lora_rank", uint64_t{l.rank});
  if (l.q_rank != 0) add("attention.q_lora_rank", uint64_t{l.q_rank});
  add("attention.key_length", uint64_t{l.rank + l.qk_rope_head_dim});
  add("attention.value_length", uint64_t{l.rank});
  add("attention.key_length_mla", uint64_t{l.qk_nope_head_dim + l.qk_rope_head_dim});
  add("attention.value_length_mla", uint64_t{l.value_dim});
  add("rope.dimension_count", uint64_t{l.qk_rope_head_dim});
  if (l.unrotated_every != 0) add_latent_layer_keys(p, add);
}

void add_indexer_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Indexer& indexer = p.indexer;
  add("attention.indexer.head_count", uint64_t{indexer.n_heads});
  add("attention.indexer.key_length", uint64_t{indexer.head_dim});
  add("attention.indexer.top_k", uint64_t{indexer.n_top});
  if (indexer.block_tokens != 0) {
    add("attention.indexer.block_size", uint64_t{indexer.block_tokens});
    add("attention.indexer.local_blocks", uint64_t{indexer.n_local});
  }
  if (indexer.key_tokens != 0) add("attention.indexer.kpool", uint64_t{indexer.key_tokens});
  if (indexer.shared_layers == 0) return;
  std::vector<bool> has_own;
  for (uint32_t i = 0; i < p.n_layers; ++i)
    has_own.push_back((indexer.shared_layers >> i & 1) == 0);
  add("attention.indexer.types", std::move(has_own));
}

void add_delta_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Delta& d = p.delta;
  add("ssm.conv_kernel", uint64_t{d.kernel_size});
  add("ssm.state_size", uint64_t{d.key_dim});
  add("ssm.group_count", uint64_t{d.n_key_heads});
  add("ssm.time_step_rank", uint64_t{d.n_value_heads});
  add("ssm.inner_size", uint64_t{d.n_value_heads} * d.value_dim);
  add("full_attention_interval", uint64_t{d.interval});
}

void add_adapter_keys(const ModelPreset::Adapters& a, const AddKey& add) {
  std::vector<uint64_t> controls, substitutes;
  for (uint32_t i = 0; i <= a.n; ++i) {
    controls.push_back(a.first_token + i);
    substitutes.push_back(a.first_token + a.n + 1 + i);
  }
  add("adapters.count", uint64_t{a.n});
  add("adapters.lora_rank", uint64_t{a.rank});
  add("adapters.token_ids_activate", std::move(controls));
  add("adapters.token_ids_substitute", std::move(substitutes));
}

void add_hyper_keys(const ModelPreset& p, const AddKey& add) {
  constexpr uint64_t kSeed = 1234;  // the usual numbers of folders
  constexpr uint64_t kRowMultiple = 128;
  const ModelPreset::Hyper& h = p.hyper;
  add("hyper_connection.count", uint64_t{h.n_streams});
  if (h.n_iterations != 0) {
    return add("hyper_connection.sinkhorn_iterations", uint64_t{h.n_iterations});
  }
  add("hyper_connection.low_rank", uint64_t{h.rank});
  add("attention.indexer.head_count", uint64_t{p.indexer.n_heads});
  add("attention.indexer.key_length", uint64_t{p.indexer.head_dim});
  add("attention.indexer.top_k", uint64_t{p.indexer.n_top});
  std::vector<uint64_t> ratios;
  for (uint32_t i = 0; i < p.n_layers; ++i) {
    ratios.push_back((i + 1) % p.delta.interval != 0 ? 0 : h.block_tokens);
  }
  add("attention.compress_ratios", std::move(ratios));
  if (h.ngram_layer >= p.n_layers) return;  // of fewer layers than the preset has
  const auto rows = primes_from(h.n_rows, uint64_t{h.n_tokens - 1} * h.heads_per_size);
  add("ple.layers", std::vector<uint64_t>{h.ngram_layer});
  add("ple.ngram_size", uint64_t{h.n_tokens});
  add("ple.heads_per_ngram", uint64_t{h.heads_per_size});
  add("ple.conv_kernel", uint64_t{h.kernel_size});
  add("ple.eos_token_id", uint64_t{h.end_token});
  add("embedding_length_per_layer_input", uint64_t{h.row_dim});
  add("ple.layer_multipliers", ngram_multipliers(kSeed, p.n_vocab, h.n_tokens));
  const std::vector<uint64_t> offsets = ngram_offsets(rows);
  add("ple.row_count",
      (offsets.back() + rows.back() + kRowMultiple - 1) / kRowMultiple * kRowMultiple);
  add("ple.head_offsets", offsets);
  add("ple.head_vocab_sizes", rows);
}

void add_joint_keys(const ModelPreset& p, const AddKey& add) {
  constexpr uint64_t kSqrtSoftplus = 4;  // value of expert_gating_func
  const ModelPreset::Joint& j = p.joint;
  add("attention.q_lora_rank", uint64_t{j.q_rank});
  add("attention.output_group_count", uint64_t{j.n_groups});
  add("attention.output_lora_rank", uint64_t{j.group_rank});
  add("attention.compress_rope_freq_base", double{j.entry_rope_base});
  std::vector<uint64_t> entry_tokens;
  for (uint32_t i = 0; i < p.n_layers; ++i) {
    const bool is_short = (i - j.n_without) % 2 == 0;
    entry_tokens.push_back(i < j.n_without ? 0 : is_short ? 4 : j.entry_tokens);
  }
  add("attention.compress_ratios", std::move(entry_tokens));
  add("hyper_connection.count", uint64_t{j.n_streams});
  add("hyper_connection.sinkhorn_iterations", uint64_t{j.n_iterations});
  add("hyper_connection.epsilon", as_stored(1e-6));
  add("hash_layer_count", uint64_t{j.n_tables});
  add("swiglu_clamp_exp", double{j.limit});
  add("expert_gating_func", kSqrtSoftplus);
}

void add_mixer_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Mixers& m = p.mixers;
  std::vector<uint64_t> n_kv_heads;
  for (uint32_t i = 0; i < p.n_layers; ++i) {
    n_kv_heads.push_back((m.attention_layers >> i & 1) != 0 ? p.n_kv_heads : 0);
  }
  add("attention.head_count_kv", std::move(n_kv_heads));
  if (m.feed_forward_layers != 0) {
    std::vector<uint64_t> ffn_dims, n_used;
    for (uint32_t i = 0; i < p.n_layers; ++i) {
      const bool is_one = (m.feed_forward_layers >> i & 1) != 0;
      ffn_dims.push_back(!is_one ? 0 : p.experts.differ ? p.experts.ffn_dim_in(i) : p.ffn_dim);
      n_used.push_back(is_one ? p.experts.n_used_in(i) : 0);
    }
    if (p.experts.differ) {
      add("expert_used_count", std::move(n_used));
      add("expert_feed_forward_length", ffn_dims);
    }
    add("feed_forward_length", std::move(ffn_dims));
  }
  if (m.kda_head_dim != 0) {
    add("kda.head_dim", uint64_t{m.kda_head_dim});
    const RecurrenceTraits& recurrence = family_of(p).recurrence;
    if (recurrence.is_kda_bounded || recurrence.is_kda_bound_optional) {
      add("kda.gate_lower_bound", kDecayBound);
    }
    return add("ssm.conv_kernel", uint64_t{m.kernel_size});
  }
  if (m.n_space_heads == 0) return add("shortconv.l_cache", uint64_t{m.kernel_size});
  add("ssm.conv_kernel", uint64_t{m.kernel_size});
  add("ssm.state_size", uint64_t{m.state_dim});
  if (m.step_rank == 0) add("ssm.group_count", uint64_t{m.n_groups});
  add("ssm.time_step_rank", uint64_t{m.step_rank ? m.step_rank : m.n_space_heads});
  add("ssm.inner_size", uint64_t{m.n_space_heads} * m.space_head_dim);
}

void add_kinds_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Kinds& kinds = p.kinds;
  std::vector<bool> is_windowed;
  std::vector<uint64_t> n_kv_heads, ffn_dims;
  for (uint32_t i = 0; i < p.n_layers; ++i) {
    const bool shares = i >= p.n_layers - kinds.n_sharing;
    is_windowed.push_back(kinds.is_windowed(i));
    n_kv_heads.push_back(is_windowed[i] || kinds.n_global_kv_heads == 0 ? p.n_kv_heads
                                                                        : kinds.n_global_kv_heads);
    ffn_dims.push_back(shares && kinds.sharing_ffn_dim != 0 ? kinds.sharing_ffn_dim : p.ffn_dim);
  }
  add("attention.sliding_window_pattern", std::move(is_windowed));
  if (kinds.n_global_kv_heads != 0) add("attention.head_count_kv", std::move(n_kv_heads));
  if (kinds.sharing_ffn_dim != 0) add("feed_forward_length", std::move(ffn_dims));
  add("attention.key_length_swa", uint64_t{kinds.window_head_dim});
  add("attention.value_length_swa", uint64_t{kinds.window_head_dim});
  add("attention.shared_kv_layers", uint64_t{kinds.n_sharing});
  add("rope.dimension_count_swa", uint64_t{kinds.window_head_dim});
  add("rope.freq_base_swa", double{kLocalRopeBase});
  add("embedding_length_per_layer_input", uint64_t{kinds.per_layer_dim});
  if (kinds.n_streams == 0) return;
  add("altup.num_inputs", uint64_t{kinds.n_streams});
  add("laurel.rank", uint64_t{kinds.laurel_rank});
  std::vector<double> cutoffs(p.n_layers, -std::numeric_limits<double>::infinity());
  std::fill_n(cutoffs.begin(), std::min(p.n_layers, kinds.n_cut_off),
              as_stored(kCutoffOf95Percent));
  add("activation_sparsity_scale", std::move(cutoffs));
}

void add_special_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Rope& rope = p.rope;
  if (rope.scaling) add("rope.scaling.type", std::string(rope.scaling));
  if (rope.factor != 0) add("rope.scaling.factor", double{rope.factor});
  if (rope.n_ctx_original != 0) {
    add("rope.scaling.original_context_length", uint64_t{rope.n_ctx_original});
  }
  if (rope.log_multiplier != 0) {
    add("rope.scaling.yarn_log_multiplier", as_stored(double{rope.log_multiplier}));
  }
  if (rope.beta_fast != 0) add("rope.scaling.yarn_beta_fast", double{rope.beta_fast});
  if (p.temperature != 0) add("attention.temperature_scale", double{p.temperature});
  if (rope.divisors == RopeDivisors::kTwoSets) {
    // Attention in longer contexts is sharpened (LongRoPE, Ding et al. 2024).
    const double longer = static_cast<double>(p.n_ctx_train) / rope.n_ctx_original;
    const double factor = std::sqrt(1 + std::log(longer) / std::log(rope.n_ctx_original));
    add("rope.scaling.attn_factor", as_stored(factor));
  }
  if (p.logit_factor != 0) add("logit_scale", double{p.logit_factor});
  if (p.scales.embedding != 0) {
    add("embedding_scale", double{p.scales.embedding});
    add("residual_scale", double{p.scales.residual});
    add("attention.scale", double{p.scales.attention});
    add("logit_scale", double{p.scales.logit});
  }
  if (p.factor != 0) {
    const double factor = double{p.factor};
    add("attention.value_scale", factor);
    add("ssm.in_scales", std::vector<double>{factor, 2 * factor, 1, factor, factor / 2});
    add("ssm.out_scale", factor);
    add("feed_forward.gate_scale", factor);
    add("feed_forward.scale", factor);
  }
  if (p.limit != 0) {
    std::vector<double> of_experts, of_mlps;
    for (uint32_t i = 0; i < p.n_layers; ++i) {
      of_experts.push_back(i % 2 != 0 ? double{p.limit} : 0.0);
      of_mlps.push_back(i > 0 ? double{p.limit} / 2 : 0.0);
    }
    add("swiglu_clamp_exp", std::move(of_experts));
    add("swiglu_clamp_shexp", std::move(of_mlps));
  }
  if (p.experts.n > 0) add_expert_keys(p, add);
  if (p.delta.kernel_size > 0) add_delta_keys(p, add);
  if (p.hyper.n_streams > 0) add_hyper_keys(p, add);
  if (p.joint.q_rank > 0) add_joint_keys(p, add);
  if (p.adapters.n > 0) add_adapter_keys(p.adapters, add);
}

}  // namespace

Metadata synthetic_metadata(const ModelPreset& p, const SyntheticType& type) {
  const Family& family = family_of(p);
  Metadata metadata;
  const auto add = [&](std::string_view key, Metadata::Value value) {
    metadata.insert(fmt::format("{}.{}", p.architecture, key), std::move(value));
  };
  metadata.insert("general.architecture", std::string(p.architecture));
  metadata.insert("general.name", fmt::format("{} (random)", p.name));
  metadata.insert("general.file_type", type.file_type);
  // The first value of a key is kept.
  if (p.mixers.attention_layers != 0) add_mixer_keys(p, add);
  if (p.kinds.global_every > 0) add_kinds_keys(p, add);
  if (p.n_window_heads != 0) {
    std::vector<uint64_t> n_heads;
    for (uint32_t i = 0; i < p.n_layers; ++i) {
      n_heads.push_back(family.attention.is_windowed(i) ? p.n_window_heads : p.n_heads);
    }
    add("attention.head_count", std::move(n_heads));
  }
  if (p.windowed_layers != 0) {
    std::vector<bool> is_windowed;
    for (uint32_t i = 0; i < p.n_layers; ++i) is_windowed.push_back(p.windowed_layers >> i & 1);
    add("attention.sliding_window_pattern", std::move(is_windowed));
  }
  if (p.n_window_kv_heads != 0) {
    std::vector<uint64_t> n_kv_heads;
    for (uint32_t i = 0; i < p.n_layers; ++i) {
      n_kv_heads.push_back(p.windowed_layers >> i & 1 ? p.n_window_kv_heads : p.n_kv_heads);
    }
    add("attention.head_count_kv", std::move(n_kv_heads));
  }
  if (p.value_dim != 0) add("attention.value_length", uint64_t{p.value_dim});
  add("block_count", uint64_t{p.n_layers});
  add("context_length", uint64_t{p.n_ctx_train});
  add("embedding_length", uint64_t{p.model_dim});
  add("feed_forward_length", uint64_t{p.ffn_dim});
  add("attention.head_count", uint64_t{p.n_heads});
  add("attention.head_count_kv", uint64_t{p.n_kv_heads});
  if (p.latent.rank > 0) {
    add_latent_keys(p, add);
  } else {
    add("attention.key_length", uint64_t{p.head_dim});
    add("attention.value_length", uint64_t{p.head_dim});
    add("rope.dimension_count", uint64_t{p.rope.n_dims ? p.rope.n_dims : p.head_dim});
  }
  if (p.indexer.n_top != 0) add_indexer_keys(p, add);
  const bool is_rms = family.norms.kind == NormKind::kRms;
  add(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
      as_stored(family.norms.eps));
  add("rope.freq_base", double{p.rope_base});
  add("vocab_size", uint64_t{p.n_vocab});
  if (p.window != 0) add("attention.sliding_window", uint64_t{p.window});
  if (family.attention.soft_cap != 0) add("attn_logit_softcapping", family.attention.soft_cap);
  if (family.logit_soft_cap != 0) add("final_logit_softcapping", family.logit_soft_cap);
  add_special_keys(p, add);
  if (family.activation == Activation::kXielu) add_xielu(metadata, p.n_layers);
  add_vocabulary(metadata, p.n_vocab);
  return metadata;
}

std::vector<SyntheticTensor> synthetic_tensors(const ModelPreset& preset, const SyntheticType& type,
                                               const Metadata& metadata) {
  const auto config = read_config(metadata);
  CHECK(config.has_value());
  const TensorTable table(*config);
  const TensorMaker maker(preset, type);
  std::vector<SyntheticTensor> tensors;
  for (const TensorSpec& spec : table.all()) {
    if (!spec.is_optional || maker.has(spec.id.role)) tensors.push_back(maker.make(spec));
  }
  return tensors;
}

}  // namespace kvik
