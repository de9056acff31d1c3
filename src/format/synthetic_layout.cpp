#include "format/synthetic_layout.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
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

constexpr SyntheticType kTypes[] = {
    {"f32", ElementType::kF32, ElementType::kF32, 0},
    {"f16", ElementType::kF16, ElementType::kF16, 1},
    {"q4_0", ElementType::kQ4_0, ElementType::kQ4_0, 2},
    {"q8_0", ElementType::kQ8_0, ElementType::kQ8_0, 7},
    {"q4_k", ElementType::kQ4_K, ElementType::kQ4_K, 14},
    {"q4_k_m", ElementType::kQ4_K, ElementType::kQ6_K, 15},
    {"q5_k", ElementType::kQ5_K, ElementType::kQ5_K, 16},
    {"q5_k_m", ElementType::kQ5_K, ElementType::kQ6_K, 17},
    {"q6_k", ElementType::kQ6_K, ElementType::kQ6_K, 18},
    {"bf16", ElementType::kBF16, ElementType::kBF16, 32},
};

// What the families of the presets have beyond a plain decoder.
struct FamilyFeatures {
  std::string_view architecture;
  float rms_eps;
  bool qkv_bias;
  bool qk_norm;
  bool sandwich_norms;       // norms after attention and MLP, too
  bool scales_embedding;     // by sqrt(model_dim) in the forward pass, so not in the weights
  float attention_soft_cap;  // 0: none
  float final_soft_cap;
};

constexpr std::array<FamilyFeatures, 5> kFamilies = {{
    {"llama", 1e-5f, false, false, false, false, 0, 0},
    {"qwen2", 1e-6f, true, false, false, false, 0, 0},
    {"qwen3", 1e-6f, false, true, false, false, 0, 0},
    {"gemma2", 1e-6f, false, false, true, true, 50, 30},
    {"gemma3", 1e-6f, false, true, true, true, 0, 0},
}};

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

  void matrix(std::string name, uint64_t n_rows, uint64_t n_cols, float gain = 1.0f) {
    const bool is_head =
        name == "output.weight" || (preset_.tied_head && name == "token_embd.weight");
    const float deviation = gain / std::sqrt(static_cast<float>(n_cols));
    add(std::move(name), type_for(n_cols, is_head), {n_rows, n_cols}, 0, deviation);
  }
  // A value or down projection.
  void sensitive_matrix(std::string name, uint32_t layer, uint64_t n_rows, uint64_t n_cols) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(n_cols));
    add(std::move(name), type_for(n_cols, has_more_bits(layer, preset_.n_layers)), {n_rows, n_cols},
        0, deviation);
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

void add_layer(TensorList& list, const ModelPreset& p, uint32_t layer) {
  const FamilyFeatures& family = family_of(p);
  const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}", layer, part); };
  const uint64_t q_dim = uint64_t{p.n_heads} * p.head_dim;
  const uint64_t kv_dim = uint64_t{p.n_kv_heads} * p.head_dim;
  list.norm(name("attn_norm.weight"), p.model_dim);
  list.matrix(name("attn_q.weight"), q_dim, p.model_dim);
  list.matrix(name("attn_k.weight"), kv_dim, p.model_dim);
  list.sensitive_matrix(name("attn_v.weight"), layer, kv_dim, p.model_dim);
  list.matrix(name("attn_output.weight"), p.model_dim, q_dim);
  if (family.qkv_bias) {
    list.bias(name("attn_q.bias"), q_dim);
    list.bias(name("attn_k.bias"), kv_dim);
    list.bias(name("attn_v.bias"), kv_dim);
  }
  if (family.qk_norm) {
    list.norm(name("attn_q_norm.weight"), p.head_dim);
    list.norm(name("attn_k_norm.weight"), p.head_dim);
  }
  if (family.sandwich_norms) {
    list.norm(name("post_attention_norm.weight"), p.model_dim);
    list.norm(name("post_ffw_norm.weight"), p.model_dim);
  }
  list.norm(name("ffn_norm.weight"), p.model_dim);
  list.matrix(name("ffn_gate.weight"), p.ffn_dim, p.model_dim);
  list.matrix(name("ffn_up.weight"), p.ffn_dim, p.model_dim);
  list.sensitive_matrix(name("ffn_down.weight"), layer, p.model_dim, p.ffn_dim);
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
  add("rope.dimension_count", uint64_t{p.head_dim});
  add("vocab_size", uint64_t{p.n_vocab});
  if (p.window != 0) add("attention.sliding_window", uint64_t{p.window});
  if (family.attention_soft_cap != 0) {
    add("attn_logit_softcapping", double{family.attention_soft_cap});
  }
  if (family.final_soft_cap != 0) add("final_logit_softcapping", double{family.final_soft_cap});
  add_vocabulary(metadata, p.n_vocab);
  return metadata;
}

std::vector<SyntheticTensor> synthetic_tensors(const ModelPreset& p, const SyntheticType& type) {
  TensorList list(p, type);
  // What enters the first layer has deviation 1, whether the weights or the forward pass scale it.
  const float embedding_gain =
      family_of(p).scales_embedding ? 1.0f : std::sqrt(static_cast<float>(p.model_dim));
  list.matrix("token_embd.weight", p.n_vocab, p.model_dim, embedding_gain);
  for (uint32_t layer = 0; layer < p.n_layers; ++layer) add_layer(list, p, layer);
  list.norm("output_norm.weight", p.model_dim);
  if (!p.tied_head) list.matrix("output.weight", p.n_vocab, p.model_dim, kHeadGain);
  return list.take();
}

}  // namespace kvik
