#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "base/token_id.h"
#include "catalogue/draft_config.h"
#include "catalogue/joint_config.h"
#include "catalogue/ngram_config.h"
#include "catalogue/recurrent_config.h"
#include "tensor/op_kinds.h"

namespace kvik {

// YaRN (Peng et al. 2023): the model was trained with up to n_ctx_original tokens, and its RoPE
// frequencies are scaled by position_scale. Pairs that rotate more than beta_fast times within that
// context keep their frequency, pairs that rotate less than beta_slow times are scaled, and those
// in between are interpolated linearly.
struct YarnConfig {
  uint32_t n_ctx_original = 0;  // 0: no YaRN; all frequencies are scaled alike
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  bool is_whole = true;  // the bounds of the interpolated pairs are rounded outwards to whole pairs
};

// Llama 3.1's scaling by wavelength: frequencies with a wavelength longer than n_ctx_original /
// low_freq_factor are divided by `factor`, those with a wavelength shorter than n_ctx_original /
// high_freq_factor are kept, and those between are interpolated.
struct Llama3RopeConfig {
  uint32_t n_ctx_original = 0;  // 0: none
  float factor = 1.0f;
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
};

// Rotary position embedding of a layer (RoPE, Su et al. 2021).
struct RopeConfig {
  float base = 10000.0f;
  float position_scale = 1.0f;  // factor of positions (linear scaling: 1 / factor)
  uint32_t n_dims = 0;          // rotated dimensions of a head; the others are unchanged
  RopePairing pairing = RopePairing::kInterleaved;
  float magnitude = 1.0f;  // factor of cos and sin
  YarnConfig yarn = {};
  float score_scale = 1.0f;  // factor of q·k, instead of the magnitude
  Llama3RopeConfig llama3_scaling = {};
  bool has_divisors = true;  // uses the frequency divisors of the model's tensor, if it has one
};

// Normalization of rows by their root mean square, or also by their mean (layer norm, Ba et al.
// 2016), with or without biases.
enum class NormKind : uint8_t { kRms, kLayer, kLayerWithBias };

// Normalization of q and k, usually before RoPE: none, each head separately with the same weights,
// all heads of a row together, a layer norm of each head with weights of its own (Command R+), or
// each head without weights (Llama 4).
enum class QkNorm : uint8_t { kNone, kHead, kRow, kLayerPerHead, kPlain };

// Attention temperature (Llama 4): queries are scaled by 1 + scale · ln(1 + ⌊(position + first) /
// length⌋), so that attention over long contexts stays sharp.
struct TemperatureConfig {
  float scale = 0;  // 0: none
  uint32_t length = 1;
  uint32_t first = 0;  // number of the first position
};

// Multi-head latent attention (MLA, DeepSeek-V2 2024). K and V of all heads are computed from one
// latent vector, which is what is cached: the K of a head is up_k · latent together with RoPE
// dimensions that all heads share, its V is up_v · latent. Attention is computed on the latent
// vectors directly: q · (up_k · latent) = (up_kᵀ · q) · latent, and up_v is applied to the weighted
// sum.
struct LatentConfig {
  uint32_t rank = 0;                                    // kv_lora_rank; 0: no MLA
  uint32_t q_rank = 0;                                  // q_lora_rank; 0: q is computed in one step
  uint32_t qk_nope_head_dim = 0, qk_rope_head_dim = 0;  // qk_nope_head_dim and qk_rope_head_dim
  uint32_t value_dim = 0;
  uint32_t q_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

// An indexer selects the tokens that a row attends to: the n_top with the highest scores, which a
// few small heads compute from vectors that are cached for this (DeepSeek-V3.2, 2025). Or each of
// its heads selects n_top blocks of tokens for one KV head (MiniMax Sparse Attention, 2026).
struct IndexerConfig {
  static constexpr float kNormEps = 1e-6f;  // of the layer norm of its keys

  uint32_t n_top = 0;  // 0: a row attends to all tokens
  uint32_t n_heads = 0, head_dim = 0;
  uint32_t block_tokens = 0;  // tokens of a block; 0: single tokens are selected for all KV heads
  uint32_t n_local = 0;       // number of last blocks that are always selected
  RopePairing pairing = RopePairing::kInterleaved;  // of the first dimensions of a head
  // An index key is that of a block of this many tokens, and whole blocks are selected; tokens
  // after the last whole block are attended to in any case (Qwen4-Exp 2026). 1: of a token.
  uint32_t key_tokens = 1;
  // The key of a block is a mean of its tokens' keys with weights that depend on them (GLM 5.3).
  bool has_weighted_means = false;
  // Its queries are computed from a layer norm of x, not from the low-rank q (Mistral Large 4).
  bool has_input_norm = false;
  // The layer attends to the tokens that the last layer with an indexer of its own has selected.
  bool is_shared = false;

  bool is_own() const { return n_top > 0 && !is_shared; }
  bool has_block_keys() const { return key_tokens > 1; }
  bool is_per_head() const { return block_tokens != 0; }
  // Returns whether the heads have weights that are computed from x.
  bool has_head_weights() const {
    return !is_per_head() && (!has_block_keys() || has_weighted_means);
  }
  // Returns the number of lists of tokens or blocks that a row gets.
  uint32_t n_lists() const { return is_per_head() ? n_heads : 1; }
  // Returns the length of a list, with keys of blocks also for an incomplete one, and the tokens of
  // an entry.
  uint32_t n_listed() const { return n_top / key_tokens + (has_block_keys() ? 1 : 0); }
  uint32_t listed_tokens() const { return is_per_head() ? block_tokens : key_tokens; }
  // Returns the number of tokens up to which a row attends to all.
  uint32_t n_budget() const {
    return is_per_head() ? n_top * block_tokens : n_top + key_tokens - 1;
  }
};

// Location of the projection to the output gates of attention: none, in Q's tensor, which contains
// for each head in turn the rows of Q and those of the gate, in a tensor of its own, or in one with
// a single row for each head.
enum class OutputGate : uint8_t { kNone, kInQ, kOwn, kPerHead };
// The gate is sigmoid(x) or softplus(x) = ln(1 + e^x).
enum class GateFunction : uint8_t { kSigmoid, kSoftplus };

// Softmax attention over the K and V of earlier tokens (Vaswani et al. 2017); with GQA there are
// fewer KV heads than query heads (Ainslie et al. 2023).
struct AttentionConfig {
  uint32_t n_heads = 0;
  uint32_t n_kv_heads = 0;
  uint32_t head_dim = 0;
  // Dimensions of a head of V if it is narrower than K; 0: head_dim. Such heads are stored with
  // zeros after them.
  uint32_t value_dim = 0;
  float value_scale = 1.0f;  // factor of V
  float scale = 0;           // factor of q·k
  float soft_cap = 0;        // soft cap of the scores; 0: none
  uint32_t window = 0;       // sliding window in tokens; 0: full attention
  // The window does not slide: a token attends to those of its own chunk of `window` tokens (Llama
  // 4), which is a multiple of kPageTokens.
  bool is_chunked = false;
  uint32_t rope = 0;  // index into ModelConfig::ropes
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  // attention sink: an additional score per head without a value (Xiao et al. 2023)
  bool has_sinks = false;
  bool is_fused = false;                       // one tensor in the file for Q, K and V
  OutputGate output_gate = OutputGate::kNone;  // the heads' output is multiplied by f(gate·x)
  GateFunction gate_function = GateFunction::kSigmoid;
  bool has_rope = true;  // has RoPE; otherwise only the causal mask depends on the order of tokens
  QkNorm qk_norm = QkNorm::kNone;
  bool is_norm_after_rope = false;  // q and k are normalized after RoPE (Hunyuan)
  // For families in which only some models have these tensors.
  bool is_qkv_bias_optional = false, is_output_bias_optional = false, is_qk_norm_optional = false;
  bool has_v_norm = false;  // each head of V is RMS-normalized without weights (Gemma 4)
  // The file may lack V's projection; V is then K before its norm.
  bool is_v_optional = false;
  // KV sharing: the earlier layer whose pages this layer reads (Brandon et al. 2024); std::nullopt:
  // the layer has K and V of its own.
  std::optional<uint32_t> shared_kv = {};
  TemperatureConfig temperature = {};
  // Queries of each head, and those of each head of the layer's own indexer, are scaled by scale ·
  // ln(position + 1) + bias, which are learned (SSMax, Nakanishi 2025).
  bool has_ssmax = false;
  // With MLA, the single KV head has the latent vector and the RoPE dimensions as its K, head_dim
  // covers both, and V is the first part of K. A layer without RoPE dimensions has only the latent
  // vector.
  LatentConfig latent = {};
  IndexerConfig indexer = {};
  JointConfig joint = {};

  uint32_t q_dim() const { return n_heads * head_dim; }
  uint32_t kv_dim() const { return n_kv_heads * head_dim; }
  // Returns the number of columns of V's projection.
  uint32_t v_dim() const { return n_kv_heads * (value_dim ? value_dim : head_dim); }
  uint32_t qkv_dim() const { return q_dim() + kv_dim() + v_dim(); }
  // Returns the dimensions of K that are V, too; 0: V is stored apart (KvGeometry::latent_dim).
  uint32_t latent_dim() const { return joint.exists() ? head_dim : latent.rank; }
  uint32_t gate_dim() const {
    if (output_gate == OutputGate::kPerHead) return n_heads;
    return output_gate == OutputGate::kNone ? 0 : q_dim();
  }
  // Returns the number of input columns of the output projection.
  uint32_t output_dim() const {
    if (joint.exists()) return joint.n_groups * joint.group_rank;
    if (latent.rank) return n_heads * latent.value_dim;
    return n_heads * (value_dim ? value_dim : head_dim);
  }
  // Return the number of columns that one RMS norm of q or k covers.
  uint32_t q_norm_dim() const { return qk_norm == QkNorm::kRow ? q_dim() : head_dim; }
  uint32_t k_norm_dim() const { return qk_norm == QkNorm::kRow ? kv_dim() : head_dim; }
};

// Parameters of an activation in a layer.
struct ActivationParameters {
  Xielu xielu = {};  // of Activation::kXielu
  float limit = 0;   // both factors of a product with SiLU are limited (Step 3.5); 0: no limit
  bool limits_gate = false;  // the gate is limited before SiLU, not after it (DeepSeek-V4)
  // Factors of the gate before the activation and of the product after it (Falcon-H1).
  float gate_scale = 1.0f, scale = 1.0f;
  // Before the activation, mean + cutoff · deviation of a row's gate is subtracted from the gate,
  // and what is below zero becomes zero (Gemma 3n). Minus infinity: not done.
  float cutoff = -std::numeric_limits<float>::infinity();
};

// down(activation(gate(x)) · up(x)) (Shazeer 2020), or down(activation(up(x))) if the activation
// has no gate.
struct MlpConfig {
  uint32_t ffn_dim = 0;
  bool is_fused = false;  // one tensor in the file for gate and up
  bool has_biases = false, are_biases_optional = false;
  ActivationParameters activation = {};
};

// Function that turns a router's scores into expert probabilities.
enum class ExpertScoring : uint8_t { kSoftmax, kSigmoid, kSqrtSoftplus };

// Mixture of experts: each token passes through the n_used top experts (Shazeer et al. 2017).
struct ExpertsConfig {
  uint32_t n_experts = 0;
  uint32_t n_used = 0;
  uint32_t ffn_dim = 0;         // size of one expert
  uint32_t shared_ffn_dim = 0;  // size of the shared expert; 0: no shared expert
  // Dimension of a latent space, into which a row is projected before the experts and from which
  // their sum is projected back (Nemotron 3 Super); 0: experts have the dimension of the model.
  uint32_t latent_dim = 0;
  ExpertScoring scoring = ExpertScoring::kSoftmax;
  bool normalizes = true;     // the weights of the selected experts are normalized to a sum of 1
  float weight_scale = 1.0f;  // factor of the weights after that
  float shared_scale = 1.0f;  // factor of the shared expert's output
  bool weighs_input = false;  // the weights are factors of the expert's input; n_used is 1
  // ActivationParameters::limit of the experts and of the shared expert
  float limit = 0, shared_limit = 0;
  bool limits_gate = false;  // ActivationParameters::limits_gate of both
  // A table has the experts of each token; the scores are only their weights (DeepSeek-V4).
  bool has_token_table = false;
  bool has_shared_gate = false;  // the shared expert's output is multiplied by sigmoid(gate · x)
  bool has_score_bias = false;   // a bias is added to the scores
  // A bias is added to the probabilities for the selection of experts, but not for their weights
  // (Wang et al. 2024).
  bool has_correction_bias = false, is_correction_bias_optional = false;
  bool has_biases = false;  // gate, up and down of each expert have biases
  // Group-limited routing: experts form groups of equal size, and experts are selected from the
  // best n_groups_used groups.
  uint32_t n_groups = 1, n_groups_used = 1;
  // Size of a dense MLP parallel to the experts, with output norms of its own; 0: there is none.
  // The experts' input, the router's input and the sum of the experts then have norms of their own
  // too, and each expert a scale (Gemma 4).
  uint32_t parallel_ffn_dim = 0;
};

// Placeholders for the half that a layer lacks.
struct NoMixer {};
struct NoFeedForward {};

// A layer consists of a mixer and a feed-forward block, which both add to the residual stream. In
// some models it has only one of the two.
struct LayerConfig {
  std::variant<AttentionConfig, DeltaConfig, KdaConfig, ShortConvConfig, StateSpaceConfig,
               SelectiveConfig, NoMixer>
      mixer;
  std::variant<MlpConfig, ExpertsConfig, NoFeedForward> feed_forward;
  // Runs in parallel with attention, on the same norm (Falcon-H1).
  std::optional<StateSpaceConfig> beside = {};

  const AttentionConfig& attention() const { return std::get<AttentionConfig>(mixer); }
  // Returns null if the layer is recurrent or has no mixer.
  const AttentionConfig* if_attention() const { return std::get_if<AttentionConfig>(&mixer); }
  bool mixes() const { return !std::holds_alternative<NoMixer>(mixer); }
  bool has_state() const { return beside || (mixes() && !if_attention()); }
  // Returns whether the layer attends to entries, of which the newest one is a part of the state.
  bool has_entries() const { return if_attention() && attention().joint.entries.exist(); }
  // Calls use(config) with the config of the layer's recurrence, if it has one.
  template <class Use>
  void visit_state(Use&& use) const {
    if (beside) return use(*beside);
    std::visit(
        [&](const auto& own) {
          if constexpr (requires { own.state_floats(); }) use(own);
        },
        mixer);
  }
  bool has_feed_forward() const { return !std::holds_alternative<NoFeedForward>(feed_forward); }
  // Returns null if the layer has no experts.
  const ExpertsConfig* experts() const { return std::get_if<ExpertsConfig>(&feed_forward); }
};

// An encoder: attention is bidirectional, and the result is an embedding of the whole text or the
// scores of a classifier. It generates no text and has no KV cache (Devlin et al. 2019).
struct EncoderConfig {
  bool has_token_types = false;  // a table of token types may be added to the embeddings
  uint32_t n_token_types = 0;    // its rows; 0: there is none
  bool has_norm_biases = false;  // layer norms have biases
  // The sum after each half of a layer is normalized, x = norm(x + f(x)); otherwise the input of
  // each half is, x += f(norm(x)), and the output of the last layer.
  bool has_post_norms = false;
  uint32_t n_labels = 0;  // scores of the classifier; 0: there is none
  // Norms are RMS norms, and those of a layer are as in a model that generates; nothing is added to
  // the embeddings (EmbeddingGemma).
  bool has_rms_norms = false;
  // Two matrices map the pooled state to this dimension and back; 0: there are none.
  uint32_t dense_dim = 0;
};

// Several residual streams, of which the layers compute one and predict the others (AltUp, Baykal
// et al. 2023), and a low-rank map beside attention (LAuReL, Menghani et al. 2024), both of Gemma
// 3n.
struct StreamsConfig {
  uint32_t n = 0;            // number of streams; the first one is computed
  uint32_t laurel_rank = 0;  // rank of the map beside attention
};

// Manifold-constrained hyper-connections (Xie et al. 2026; DeepSeek-V4, 2026): a projection of all
// streams gives the weights with which a half of a layer reads them, those with which its output is
// added to them, and a matrix that mixes them. Its rows and columns are scaled in turn until they
// sum to 1 (Sinkhorn and Knopp 1967).
struct SinkhornConfig {
  uint32_t n_iterations = 0;
  float eps = 1e-6f;  // is added to the weights and to the sums
  // The model's output is a weighted sum of the streams; otherwise it is their mean.
  bool has_output_weights = true;
};

// Hyper-connections: several residual streams. The input of each half of a layer is the mean of the
// normed streams, each weighted by a map of low rank, and the half's output is added to each stream
// with a weight of its own (Qwen4-Exp 2026). Or they are manifold-constrained.
struct HyperConnectionsConfig {
  uint32_t n = 0;                               // number of streams
  uint32_t rank = 0;                            // of the map; 0: there is none
  std::optional<SinkhornConfig> sinkhorn = {};  // absent: not manifold-constrained
};

// A model that generates and also scores how well a document answers a query (Qwen3-Reranker): the
// score is the logit of "yes" minus that of "no" after a prompt with both texts. The rows of the
// output projection for the two tokens are a tensor of their own, the classifier.
struct RerankerConfig {
  std::string prompt;  // with "{query}" and "{document}"
};

// LoRA adapters in a model's own file, of which control tokens choose (Granite Switch, IBM 2026):
// an adapter computes the rows from its control token on, up to the next one. The embedding of a
// control token is that of another token.
struct AdapterSwitch {
  struct Control {
    TokenId token = 0, substitute = 0;
    uint32_t adapter = 0;  // 0: no adapter
  };
  uint32_t n_adapters = 0;
  uint32_t rank = 0;
  std::vector<Control> controls;
};

// A model as a set of features. Families only fill this in (family.h), and no code outside the
// catalogue depends on the names of families.
struct ModelConfig {
  std::string architecture;
  std::string name;

  uint32_t n_layers = 0;
  uint32_t model_dim = 0;
  uint32_t ffn_dim = 0;  // size of the MLP in layers that have one
  uint32_t n_vocab = 0;
  uint32_t n_ctx_train = 0;

  NormKind norm = NormKind::kRms;  // of a layer's inputs and outputs, and of the last layer's
  float norm_eps = 1e-5f;
  float post_norm_eps = 1e-5f;  // of the norms of outputs
  bool has_positions = false;   // a table of positions, [n_ctx_train], is added to the embeddings
  bool has_embedding_norm = false;  // embeddings are RMS-normalized, without weights
  float logit_soft_cap = 0;         // 0: none
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;  // factor of what each half of a layer adds to the residual stream
  float logit_scale = 1.0f;
  bool has_head_bias = false;  // a bias is added to the logits
  Activation activation = Activation::kSilu;
  bool has_pre_norms = true;             // the inputs of both halves of a layer are normalized
  bool has_post_norms = false;           // their outputs are normalized (both: sandwich norms)
  bool is_last_norm_embeddings = false;  // name of the norm after the last layer
  // Both halves of a layer read the layer's input: x += attention(norm(x)) + mlp(norm(x)) (Wang and
  // Komatsuzaki 2021).
  bool has_parallel_halves = false;
  bool has_one_norm = false;  // the two halves of a layer share a norm
  // The norm before a feed-forward block has the name of a norm after attention, which these models
  // do not have.
  bool is_ffn_norm_post_attention = false;
  bool is_ffn_norm_bare = false;  // its name has no suffix ".weight"

  // LongRoPE: with two sets of frequency divisors, the context length up to which the short set
  // applies. 0: there is at most one set.
  uint32_t n_ctx_short_rope = 0;

  // Dimension of the per-layer embeddings, which each layer computes from an embedding table of its
  // own and the input of the first layer, and adds after its feed-forward block (Gemma 3n, 2025);
  // 0: none.
  uint32_t per_layer_dim = 0;
  // Rows of that table; tokens beyond them have its first row.
  uint32_t n_per_layer_vocab = 0;
  std::optional<StreamsConfig> streams = {};         // absent: one residual stream
  std::optional<HyperConnectionsConfig> hyper = {};  // likewise
  std::optional<NgramConfig> ngrams = {};            // only with hyper-connections
  std::optional<AdapterSwitch> adapter_switch = {};  // absent: no adapters of its own
  // The output of a layer is multiplied by a scale of that layer, if the file has it.
  bool has_layer_scales = false;

  bool has_learned_rope = false;              // TensorRole::kRopeDivisors must be there
  std::optional<EncoderConfig> encoder = {};  // absent: the model generates text
  std::optional<Pooling> pooling = {};        // absent: the file states none
  std::optional<RerankerConfig> reranker = {};

  // Number of MTP layers after the others. Their tensors are ignored except for those of the MTP
  // head in use.
  uint32_t n_mtp_layers = 0;
  // The first MTP layer is used as drafter: from the hidden state at a position (after the last
  // norm) and the next token, it predicts the token after the next one (Gloeckle et al. 2024;
  // DeepSeek-V3, 2024).
  bool has_mtp_head = false;
  // It has an embedding or an output projection of its own, and does not use the model's.
  bool has_mtp_embedding = false, has_mtp_output = false;
  // The hidden states are those before the last norm, the model's and its own.
  bool is_mtp_hidden_raw = false;
  // They are all residual streams after the last layer, with this norm, and the MTP layer has
  // hyper-connections (hyper).
  std::optional<StreamNorm> mtp_streams = {};
  bool lacks_mtp_output_norm = false;  // its output is not normalized
  // The MTP head is an EAGLE-3 head, which takes the place of the model's own.
  std::optional<EagleConfig> eagle = {};
  // The MTP head is an assistant.
  std::optional<AssistantConfig> assistant = {};
  // Returns the number of entries in per-layer lists of the file.
  size_t n_listed_layers() const { return size_t{n_layers} + n_mtp_layers; }

  std::vector<LayerConfig> layers;  // n_layers of them, followed by those of the MTP head
  std::vector<RopeConfig> ropes;

  // Returns the number of layers of the MTP head.
  uint32_t n_draft_layers() const {
    if (!has_mtp_head) return 0;
    return assistant ? assistant->n_layers : 1;
  }
  // Returns the dimensions of a hidden state that the MTP head reads.
  uint32_t mtp_hidden_dim() const { return (mtp_streams ? hyper->n : 1) * model_dim; }
  // Returns the width of the layers of the MTP head.
  uint32_t draft_dim() const { return assistant ? assistant->model_dim : model_dim; }

  // Returns the config of the first attention layer, which describes the whole model in summaries.
  const AttentionConfig& attention() const;
  uint32_t n_attention_layers() const;
  // Returns how many tokens of a context of n_ctx may be used: with a table of positions, as many
  // as it has.
  uint32_t n_ctx_within(uint32_t n_ctx) const {
    return has_positions && n_ctx > n_ctx_train ? n_ctx_train : n_ctx;
  }
  // Returns the number of recurrent layers and of those with entries (EntriesConfig).
  uint32_t n_state_layers() const;
  bool has_state() const { return n_state_layers() > 0; }
  // Returns the config of the first layer with experts; null if there is none.
  const ExpertsConfig* experts() const;
  // Returns the config of the first layer with experts, with the largest of each size in any layer.
  // There must be such a layer.
  ExpertsConfig widest_experts() const;
};

// States whether the keys of a draft head count. They do if the head was added to the model; a
// model's own file may have keys of any name.
enum class DraftHeadKeys : uint8_t { kIgnored, kRead };

// Reads the geometry and features of a model from the keys of a GGUF file. Errors: kUnsupported for
// an unknown architecture or feature (the message lists the known ones), kCorrupt for a missing key
// or an impossible value.
Result<ModelConfig> read_config(const Metadata& metadata,
                                DraftHeadKeys head_keys = DraftHeadKeys::kIgnored);

// Returns the model without its MTP head, for files that announce one but do not contain it.
ModelConfig without_mtp_head(ModelConfig config);

}  // namespace kvik
