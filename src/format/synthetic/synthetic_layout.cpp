#include "format/synthetic/synthetic_layout.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

constexpr uint32_t kNumberOfSpecials = 4;
constexpr uint32_t kToyTokens = kNumberOfSpecials + 256;
constexpr double kUnusedScore = -1e4;
constexpr float kVectorDeviation = 0.1f;
constexpr float kHeadGain = 4.0f;  // spreads the logits: sampling from a flat row tests little

// token_type numbers of GGUF vocabularies.
enum TokenKind : int64_t { kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6 };

// Groups of integers are in no GGUF file; llama.cpp's number of what it has to guess.
constexpr uint64_t kNoFileType = 1024;

constexpr SyntheticType kTypes[] = {
    {"f32", ElementType::kF32, ElementType::kF32, 0},
    {"f16", ElementType::kF16, ElementType::kF16, 1},
    {"q4_0", ElementType::kQ4_0, ElementType::kQ4_0, 2},
    {"q4_1", ElementType::kQ4_1, ElementType::kQ4_1, 3},
    {"q8_0", ElementType::kQ8_0, ElementType::kQ8_0, 7},
    {"q5_0", ElementType::kQ5_0, ElementType::kQ5_0, 8},
    {"q5_1", ElementType::kQ5_1, ElementType::kQ5_1, 9},
    {"q2_k", ElementType::kQ2_K, ElementType::kQ2_K, 10},
    {"q3_k", ElementType::kQ3_K, ElementType::kQ3_K, 11},
    {"q4_k", ElementType::kQ4_K, ElementType::kQ4_K, 14},
    {"q4_k_m", ElementType::kQ4_K, ElementType::kQ6_K, 15},
    {"q5_k", ElementType::kQ5_K, ElementType::kQ5_K, 16},
    {"q5_k_m", ElementType::kQ5_K, ElementType::kQ6_K, 17},
    {"q6_k", ElementType::kQ6_K, ElementType::kQ6_K, 18},
    {"iq4_nl", ElementType::kIQ4_NL, ElementType::kIQ4_NL, 25},
    {"iq4_xs", ElementType::kIQ4_XS, ElementType::kIQ4_XS, 30},
    {"bf16", ElementType::kBF16, ElementType::kBF16, 32},
    {"int4g128", ElementType::kInt4G128, ElementType::kInt4G128, kNoFileType},
    {"int8g128", ElementType::kInt8G128, ElementType::kInt8G128, kNoFileType},
};

enum class Norms : uint8_t { kBefore, kBehind, kBoth };  // attention and MLP
enum class QkNorms : uint8_t { kNone, kHead, kRow };

// What the families of the presets have beyond a plain decoder.
struct FamilyFeatures {
  std::string_view architecture;
  float rms_eps = 1e-5f;
  bool qkv_bias = false;
  QkNorms qk_norm = QkNorms::kNone;
  Norms norms = Norms::kBefore;
  bool fused = false;             // QKV, and gate with up
  bool scales_embedding = false;  // by sqrt(model_dim) in the forward pass, so not in the weights
  float attention_soft_cap = 0;   // 0: none
  float final_soft_cap = 0;
};

constexpr FamilyFeatures kFamilies[] = {
    {.architecture = "llama"},
    {.architecture = "qwen2", .rms_eps = 1e-6f, .qkv_bias = true},
    {.architecture = "qwen2moe", .rms_eps = 1e-6f, .qkv_bias = true},
    {.architecture = "qwen3", .rms_eps = 1e-6f, .qk_norm = QkNorms::kHead},
    {.architecture = "qwen3moe", .rms_eps = 1e-6f, .qk_norm = QkNorms::kHead},
    {.architecture = "gemma2",
     .rms_eps = 1e-6f,
     .norms = Norms::kBoth,
     .scales_embedding = true,
     .attention_soft_cap = 50,
     .final_soft_cap = 30},
    {.architecture = "gemma3",
     .rms_eps = 1e-6f,
     .qk_norm = QkNorms::kHead,
     .norms = Norms::kBoth,
     .scales_embedding = true},
    {.architecture = "phi3", .fused = true},
    {.architecture = "granite"},
    {.architecture = "olmo2", .rms_eps = 1e-6f, .qk_norm = QkNorms::kRow, .norms = Norms::kBehind},
};

const FamilyFeatures& family_of(const ModelPreset& preset) {
  const FamilyFeatures* found = nullptr;
  for (const FamilyFeatures& family : kFamilies) {
    if (family.architecture == preset.architecture) found = &family;
  }
  CHECK(found != nullptr);
  return *found;
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

// Whether llama.cpp's K_M mixes give this layer's value and down projections more bits.
bool has_more_bits(uint32_t layer, uint32_t n_layers) {
  const uint32_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

class TensorList {
 public:
  TensorList(const ModelPreset& preset, const SyntheticType& type) : preset_(preset), type_(type) {}

  using Shape = std::vector<uint64_t>;

  void matrix(std::string name, Shape shape, float gain = 1.0f) {
    const bool is_head =
        name == "output.weight" || (preset_.tied_head && name == "token_embd.weight");
    const ElementType type = type_for(shape.back(), is_head);
    add_matrix(std::move(name), type, std::move(shape), gain);
  }
  // A value or down projection.
  void sensitive_matrix(std::string name, uint32_t layer, Shape shape) {
    const ElementType type = type_for(shape.back(), has_more_bits(layer, preset_.n_layers));
    add_matrix(std::move(name), type, std::move(shape), 1.0f);
  }
  void router(std::string name, Shape shape) {
    add_matrix(std::move(name), ElementType::kF32, std::move(shape), 1.0f);
  }
  void norm(std::string name, uint64_t n) {
    add(std::move(name), ElementType::kF32, {n}, 1, kVectorDeviation);
  }
  void bias(std::string name, uint64_t n) {
    add(std::move(name), ElementType::kF32, {n}, 0, kVectorDeviation);
  }
  std::vector<SyntheticTensor> take() { return std::move(tensors_); }

 private:
  // Rows that are no whole super-blocks become q8_0 (llama.cpp has q5_0 and q5_1, too), rows that
  // are no whole blocks f16.
  ElementType type_for(uint64_t n_cols, bool more_bits) const {
    ElementType type = more_bits ? type_.more : type_.most;
    if (traits(type).block_elements == 256 && n_cols % 256 != 0) type = ElementType::kQ8_0;
    return n_cols % traits(type).block_elements == 0 ? type : ElementType::kF16;
  }

  void add_matrix(std::string name, ElementType type, Shape shape, float gain) {
    const float deviation = gain / std::sqrt(static_cast<float>(shape.back()));
    add(std::move(name), type, std::move(shape), 0, deviation);
  }

  void add(std::string name, ElementType type, std::vector<uint64_t> shape, float mean,
           float deviation) {
    const auto n_bytes = bytes_of(type, shape);
    CHECK(n_bytes.has_value());
    tensors_.push_back({{std::move(name), type, std::move(shape), *n_bytes}, mean, deviation});
  }

  const ModelPreset& preset_;
  const SyntheticType& type_;
  std::vector<SyntheticTensor> tensors_;
};

// Tensors of one layer, by the names of a GGUF file.
class LayerTensors {
 public:
  LayerTensors(TensorList& list, const ModelPreset& preset, uint32_t layer)
      : list_(list), p_(preset), family_(family_of(preset)), layer_(layer) {}

  void add_attention() {
    const uint64_t q_dim = uint64_t{p_.n_heads} * p_.head_dim;
    const uint64_t kv_dim = uint64_t{p_.n_kv_heads} * p_.head_dim;
    if (family_.norms != Norms::kBehind) list_.norm(name("attn_norm.weight"), p_.model_dim);
    if (family_.fused) {
      list_.matrix(name("attn_qkv.weight"), {q_dim + 2 * kv_dim, p_.model_dim});
    } else {
      list_.matrix(name("attn_q.weight"), {q_dim, p_.model_dim});
      list_.matrix(name("attn_k.weight"), {kv_dim, p_.model_dim});
      list_.sensitive_matrix(name("attn_v.weight"), layer_, {kv_dim, p_.model_dim});
    }
    list_.matrix(name("attn_output.weight"), {p_.model_dim, q_dim});
    if (family_.qkv_bias) {
      list_.bias(name("attn_q.bias"), q_dim);
      list_.bias(name("attn_k.bias"), kv_dim);
      list_.bias(name("attn_v.bias"), kv_dim);
    }
    if (family_.qk_norm != QkNorms::kNone) {
      const bool is_row = family_.qk_norm == QkNorms::kRow;
      list_.norm(name("attn_q_norm.weight"), is_row ? q_dim : p_.head_dim);
      list_.norm(name("attn_k_norm.weight"), is_row ? kv_dim : p_.head_dim);
    }
    if (family_.norms == Norms::kBefore) return;
    list_.norm(name("post_attention_norm.weight"), p_.model_dim);
    list_.norm(name("post_ffw_norm.weight"), p_.model_dim);
  }

  void add_mlp() {
    if (family_.norms != Norms::kBehind) list_.norm(name("ffn_norm.weight"), p_.model_dim);
    if (p_.experts.n > 0) return add_experts();
    if (!family_.fused) list_.matrix(name("ffn_gate.weight"), {p_.ffn_dim, p_.model_dim});
    const uint64_t n_up = uint64_t{family_.fused ? 2u : 1u} * p_.ffn_dim;
    list_.matrix(name("ffn_up.weight"), {n_up, p_.model_dim});
    list_.sensitive_matrix(name("ffn_down.weight"), layer_, {p_.model_dim, p_.ffn_dim});
  }

 private:
  void add_experts() {
    const ModelPreset::Experts& e = p_.experts;
    list_.router(name("ffn_gate_inp.weight"), {e.n, p_.model_dim});
    list_.matrix(name("ffn_gate_exps.weight"), {e.n, e.ffn_dim, p_.model_dim});
    list_.matrix(name("ffn_up_exps.weight"), {e.n, e.ffn_dim, p_.model_dim});
    list_.sensitive_matrix(name("ffn_down_exps.weight"), layer_, {e.n, p_.model_dim, e.ffn_dim});
    if (e.shared_ffn_dim == 0) return;
    list_.bias(name("ffn_gate_inp_shexp.weight"), p_.model_dim);
    list_.matrix(name("ffn_gate_shexp.weight"), {e.shared_ffn_dim, p_.model_dim});
    list_.matrix(name("ffn_up_shexp.weight"), {e.shared_ffn_dim, p_.model_dim});
    list_.sensitive_matrix(name("ffn_down_shexp.weight"), layer_, {p_.model_dim, e.shared_ffn_dim});
  }

  std::string name(std::string_view part) const { return fmt::format("blk.{}.{}", layer_, part); }

  TensorList& list_;
  const ModelPreset& p_;
  const FamilyFeatures& family_;
  uint32_t layer_;
};

using AddKey = std::function<void(std::string_view key, Metadata::Value value)>;

void add_special_keys(const ModelPreset& p, const AddKey& add) {
  const ModelPreset::Rope& rope = p.rope;
  if (rope.scaling) add("rope.scaling.type", std::string(rope.scaling));
  if (rope.factor != 0) add("rope.scaling.factor", double{rope.factor});
  if (rope.n_ctx_original != 0) {
    add("rope.scaling.original_context_length", uint64_t{rope.n_ctx_original});
  }
  if (rope.divisors == RopeDivisors::kTwoSets) {
    // Attention over longer contexts is sharpened (LongRoPE, Ding et al. 2024).
    const double longer = static_cast<double>(p.n_ctx_train) / rope.n_ctx_original;
    const double factor = std::sqrt(1 + std::log(longer) / std::log(rope.n_ctx_original));
    add("rope.scaling.attn_factor", double{static_cast<float>(factor)});
  }
  if (p.scales.embedding != 0) {
    add("embedding_scale", double{p.scales.embedding});
    add("residual_scale", double{p.scales.residual});
    add("attention.scale", double{p.scales.attention});
    add("logit_scale", double{p.scales.logit});
  }
  if (p.experts.n == 0) return;
  add("expert_count", uint64_t{p.experts.n});
  add("expert_used_count", uint64_t{p.experts.n_used});
  add("expert_feed_forward_length", uint64_t{p.experts.ffn_dim});
  if (p.experts.shared_ffn_dim == 0) return;
  add("expert_shared_feed_forward_length", uint64_t{p.experts.shared_ffn_dim});
}

}  // namespace

std::span<const SyntheticType> synthetic_types() { return kTypes; }

Metadata synthetic_metadata(const ModelPreset& p, const SyntheticType& type) {
  const FamilyFeatures& family = family_of(p);
  Metadata metadata;
  const auto add = [&](std::string_view key, Metadata::Value value) {
    metadata.insert(fmt::format("{}.{}", p.architecture, key), std::move(value));
  };
  metadata.insert("general.architecture", std::string(p.architecture));
  metadata.insert("general.name", fmt::format("{} (random)", p.name));
  metadata.insert("general.file_type", type.file_type);
  add("block_count", uint64_t{p.n_layers});
  add("context_length", uint64_t{p.n_ctx_train});
  add("embedding_length", uint64_t{p.model_dim});
  add("feed_forward_length", uint64_t{p.ffn_dim});
  add("attention.head_count", uint64_t{p.n_heads});
  add("attention.head_count_kv", uint64_t{p.n_kv_heads});
  add("attention.key_length", uint64_t{p.head_dim});
  add("attention.value_length", uint64_t{p.head_dim});
  add("attention.layer_norm_rms_epsilon", double{family.rms_eps});
  add("rope.freq_base", double{p.rope_base});
  add("rope.dimension_count", uint64_t{p.rope.n_dims ? p.rope.n_dims : p.head_dim});
  add("vocab_size", uint64_t{p.n_vocab});
  if (p.window != 0) add("attention.sliding_window", uint64_t{p.window});
  if (family.attention_soft_cap != 0) {
    add("attn_logit_softcapping", double{family.attention_soft_cap});
  }
  if (family.final_soft_cap != 0) add("final_logit_softcapping", double{family.final_soft_cap});
  add_special_keys(p, add);
  add_vocabulary(metadata, p.n_vocab);
  return metadata;
}

std::vector<SyntheticTensor> synthetic_tensors(const ModelPreset& p, const SyntheticType& type) {
  TensorList list(p, type);
  // What enters the first layer has deviation 1, whether the weights or the forward pass scale it.
  float embedding_gain =
      family_of(p).scales_embedding ? 1.0f : std::sqrt(static_cast<float>(p.model_dim));
  if (p.scales.embedding != 0) embedding_gain /= p.scales.embedding;
  list.matrix("token_embd.weight", {p.n_vocab, p.model_dim}, embedding_gain);
  const uint32_t n_pairs = (p.rope.n_dims ? p.rope.n_dims : p.head_dim) / 2;
  if (p.rope.divisors == RopeDivisors::kOneSet) list.norm("rope_freqs.weight", n_pairs);
  if (p.rope.divisors == RopeDivisors::kTwoSets) {
    list.norm("rope_factors_long.weight", n_pairs);
    list.norm("rope_factors_short.weight", n_pairs);
  }
  for (uint32_t layer = 0; layer < p.n_layers; ++layer) {
    LayerTensors tensors(list, p, layer);
    tensors.add_attention();
    tensors.add_mlp();
  }
  list.norm("output_norm.weight", p.model_dim);
  if (!p.tied_head) list.matrix("output.weight", {p.n_vocab, p.model_dim}, kHeadGain);
  return list.take();
}

}  // namespace kvik
