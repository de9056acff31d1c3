#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/recurrent_config.h"
#include "tensor/op_kinds.h"

namespace kvik {

// Frequencies that a model was trained with up to n_ctx_original tokens, stretched by 1 /
// position_scale: those that turn more often than beta_fast in that context stay, those that turn
// less than beta_slow are stretched, and those between go over linearly (Peng et al. 2023).
struct YarnConfig {
  uint32_t n_ctx_original = 0;  // 0: no yarn, all frequencies are stretched alike
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  bool is_whole = true;  // the pairs between which they go over are rounded, outwards
};

// The same by wavelength: longer than n_ctx_original / low_freq_factor is stretched by `factor`,
// shorter than n_ctx_original / high_freq_factor stays (Llama 3.1).
struct SmoothStretchConfig {
  uint32_t n_ctx_original = 0;  // 0: none
  float factor = 1.0f;
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
};

// How a layer's heads turn with their position (Su et al. 2021).
struct RopeConfig {
  float base = 10000.0f;
  float position_scale = 1.0f;  // positions are multiplied by this (linear scaling: 1 / factor)
  uint32_t n_dims = 0;          // of each head; the rest stays
  RopePairing pairing = RopePairing::kInterleaved;
  float magnitude = 1.0f;  // of cos and sin
  YarnConfig yarn = {};
  float score_scale = 1.0f;  // of q·k, in place of the magnitude
  SmoothStretchConfig smooth_stretch = {};
  bool has_divisors = true;  // those of the model's tensor, where it has one
};

// What of q and k is normed before it turns: nothing, each head for itself, or all heads of a row
// together.
enum class QkNorm : uint8_t { kNone, kHead, kRow };

// Queries grow with their position, by 1 + scale · ln(1 + ⌊position / length⌋), so that attention
// over long contexts stays sharp (Llama 4).
struct TemperatureConfig {
  float scale = 0;  // 0: they do not
  uint32_t length = 1;
};

// K and V of all heads made from one latent vector, which is what is kept (DeepSeek-V2, 2024): a
// head's K is up_k · latent beside dimensions that turn and are the same for all, its V up_v ·
// latent. Scores are had from the latent itself, q · (up_k · latent) = (up_kᵀ · q) · latent, and
// what is gathered of it passes up_v afterwards.
struct LatentConfig {
  uint32_t rank = 0;    // of the latent vector; 0: there is none
  uint32_t q_rank = 0;  // q is made in two steps by way of so many dimensions; 0: in one
  uint32_t still_dim = 0, turning_dim = 0;  // of a head's q and k
  uint32_t value_dim = 0;
  uint32_t q_dim() const { return still_dim + turning_dim; }
};

// Softmax attention over the K and V of earlier tokens (Vaswani et al. 2017), with fewer KV heads
// than query heads where they share (Ainslie et al. 2023).
struct AttentionConfig {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  float scale = 0;      // of q·k
  float soft_cap = 0;   // of the scores; 0: none
  uint32_t window = 0;  // tokens that are seen; 0: all
  uint32_t rope = 0;    // index into ModelConfig::ropes
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_sinks = false;  // one more score of each head, that weighs nothing (Xiao et al. 2023)
  bool is_fused = false;   // one tensor in the file for Q, K and V
  // What a head gives is multiplied by sigmoid(gate · x); Q's tensor holds, of each head in turn,
  // the rows of Q and those of the gate.
  bool has_output_gate = false;
  bool is_turned = true;  // heads turn with their position; else order shows in the mask alone
  QkNorm qk_norm = QkNorm::kNone;
  // Of families some of whose members have none of them.
  bool is_qkv_bias_optional = false, is_output_bias_optional = false, is_qk_norm_optional = false;
  bool has_v_norm = false;  // each head of V is brought to deviation 1 (Gemma 4)
  // The file may have none for V, which is then what K is before its norm.
  bool is_v_optional = false;
  // The layer before this one whose K and V are read here, as they lie in its pages (Brandon et al.
  // 2024); empty: the layer's own.
  std::optional<uint32_t> shared_kv = {};
  TemperatureConfig temperature = {};
  // Where it is not empty, the one KV head has the latent vector and what turns as its K, head_dim
  // is that of both, and the beginning of K is V.
  LatentConfig latent = {};

  uint32_t q_dim() const { return n_heads * head_dim; }
  uint32_t kv_dim() const { return n_kv_heads * head_dim; }
  uint32_t qkv_dim() const { return q_dim() + 2 * kv_dim(); }
  uint32_t gate_dim() const { return has_output_gate ? q_dim() : 0; }
  // Columns of what the output projection meets.
  uint32_t output_dim() const { return n_heads * (latent.rank ? latent.value_dim : head_dim); }
  // Columns that one norm of q, and of k, goes over.
  uint32_t q_norm_dim() const { return qk_norm == QkNorm::kRow ? q_dim() : head_dim; }
  uint32_t k_norm_dim() const { return qk_norm == QkNorm::kRow ? kv_dim() : head_dim; }
};

// down(activation(gate(x)) · up(x))  (Shazeer 2020), or down(activation(up(x))) where the model's
// activation has no gate.
struct MlpConfig {
  uint32_t ffn_dim = 0;
  bool is_fused = false;  // one tensor in the file for gate and up
  bool may_have_biases = false;
};

// How a router's scores become probabilities of experts.
enum class ExpertScoring : uint8_t { kSoftmax, kSigmoid };

// A mixture of experts in place of an MLP: every token goes through n_used of them (Shazeer et al.
// 2017).
struct ExpertsConfig {
  uint32_t n_experts = 0;
  uint32_t n_used = 0;
  uint32_t ffn_dim = 0;         // of one expert
  uint32_t shared_ffn_dim = 0;  // of the expert that every token goes through; 0: there is none
  ExpertScoring scoring = ExpertScoring::kSoftmax;
  bool normalizes = true;        // the weights of the chosen add up to 1
  float weight_scale = 1.0f;     // of the chosen experts' weights, after that
  bool has_shared_gate = false;  // the shared expert's output is multiplied by sigmoid(gate · x)
  bool has_score_bias = false;   // is added to the scores
  // Is added to the probabilities by which experts are chosen, not to those by which they count
  // (Wang et al. 2024).
  bool has_choice_bias = false, is_choice_bias_optional = false;
  bool has_biases = false;  // of gate, up and down of each expert
  // Experts stand in groups of one size, and only those of the best groups are chosen from.
  uint32_t n_groups = 1, n_groups_used = 1;
  // Of an MLP beside the experts, with norms of its own behind it; 0: there is none. The experts'
  // input, their router's and their sum have norms of their own then, too, and each expert a factor
  // by which it counts (Gemma 4).
  uint32_t beside_ffn_dim = 0;
};

// What stands in the place of the half that a layer lacks.
struct NoMixer {};
struct NoFeedForward {};

// A layer mixes tokens, then feeds each forward by itself; both add to the residual stream. In some
// models it does one of the two.
struct LayerConfig {
  std::variant<AttentionConfig, DeltaConfig, ShortConvConfig, StateSpaceConfig, NoMixer> mixer;
  std::variant<MlpConfig, ExpertsConfig, NoFeedForward> feed_forward;

  const AttentionConfig& attention() const { return std::get<AttentionConfig>(mixer); }
  // Null where the layer remembers in another way, or nothing.
  const AttentionConfig* if_attention() const { return std::get_if<AttentionConfig>(&mixer); }
  bool mixes() const { return !std::holds_alternative<NoMixer>(mixer); }
  bool has_state() const { return mixes() && !if_attention(); }
  bool feeds_forward() const { return !std::holds_alternative<NoFeedForward>(feed_forward); }
  // Null where the layer has no experts.
  const ExpertsConfig* experts() const { return std::get_if<ExpertsConfig>(&feed_forward); }
};

// A model as a set of features. A family is nothing but a way to fill this in (family.h); nobody
// past the catalogue knows names of families.
struct ModelConfig {
  std::string architecture;
  std::string name;

  uint32_t n_layers = 0;
  uint32_t model_dim = 0;
  uint32_t ffn_dim = 0;  // of the layers that have an MLP
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;

  float norm_eps = 1e-5f;
  float logit_soft_cap = 0;  // 0: none
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // of what each half of a layer adds to the residual stream
  float logit_scale = 1.0f;
  Activation activation = Activation::kSilu;
  bool has_pre_norms = true;             // the inputs of both halves of a layer are normed
  bool has_post_norms = false;           // their outputs are (both: sandwich)
  bool is_last_norm_embeddings = false;  // as the norm behind the last layer is called
  // The norm before a feed-forward is called that behind attention, which these models do not have.
  bool is_ffn_norm_post_attention = false;

  // Where tensors hold two sets of divisors of the rotation frequencies: the context up to which
  // the short ones serve. 0: there is one set at most.
  uint32_t n_ctx_short_rope = 0;

  // Of a vector that every layer has for each token, made of an embedding of its own and of the one
  // that enters the first layer, and adds behind its feed-forward (Gemma 3n, 2025); 0: none.
  uint32_t per_layer_dim = 0;
  bool has_layer_scales =
      false;  // rows are multiplied by a number of each layer's, where it has one

  // Layers behind the others that guess further tokens; their tensors are left alone but for those
  // of the guesser.
  uint32_t n_guessing_layers = 0;
  // The first of them is used: from the token behind a position and the hidden state there, behind
  // the last norm, it guesses the token after that (Gloeckle et al. 2024; Qwen3-Next).
  bool has_guesser = false;
  // Lists of the file have an entry for each layer of it.
  size_t n_listed_layers() const { return size_t{n_layers} + n_guessing_layers; }

  std::vector<LayerConfig> layers;  // n_layers of them, and behind those the guesser
  std::vector<RopeConfig> ropes;

  // Of the first layer that attends, for whoever describes the whole model.
  const AttentionConfig& attention() const;
  uint32_t n_attention_layers() const;
  // Of those that remember in a state.
  uint32_t n_state_layers() const;
  bool has_state() const { return n_state_layers() > 0; }
  // Of the first layer that has experts; null where none has.
  const ExpertsConfig* experts() const;
};

// Reads the geometry and the features of a family from a GGUF file's keys. Errors: kUnsupported for
// an architecture or feature that is not known (the message lists those that are), kCorrupt for a
// missing key or a value that cannot be.
Result<ModelConfig> read_config(const Metadata& metadata);

// The same model without its guesser, for files that name one and do not have it.
ModelConfig without_guesser(ModelConfig config);

}  // namespace kvik
