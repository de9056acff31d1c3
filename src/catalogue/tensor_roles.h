#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/model_config.h"

namespace kvik {

// Purpose of a tensor. Together with a layer number, a role identifies a tensor of a model,
// independently of its name in a file.
enum class TensorRole : uint8_t {
  // Roles of the whole model.
  kEmbedding,
  kRopeDivisors,       // divisors of the RoPE frequencies, for all contexts
  kLongRopeDivisors,   // LongRoPE: for contexts longer than the original one
  kShortRopeDivisors,  // LongRoPE: up to the original context length
  kOutputNorm,
  kOutputNormBias,
  // The output norm under another name (LFM2), or the norm of an encoder's embeddings.
  kEmbeddingsNorm,
  kEmbeddingsNormBias,
  kPositions,   // table of positions: [n_ctx_train, model_dim]
  kTokenTypes,  // table of token types: [n_token_types, model_dim]
  kPooler,      // dense layer before a classifier
  kPoolerBias,
  kClassifier,  // [n_labels, model_dim]
  kClassifierBias,
  kDenseOut,   // matrices after pooling: [dense_dim, model_dim]
  kDenseBack,  // and [model_dim, dense_dim]
  kHead,
  kHeadBias,
  kPerLayerEmbedding,       // [n_vocab, n_layers · per_layer_dim], or a table of n-grams
  kPerLayerProjection,      // projection of the input of the first layer to the same size
  kPerLayerProjectionNorm,  // norm of each layer's part
  kStreamProjections,  // the first residual stream to the others: [n − 1, model_dim, model_dim]
  kStreamOutputs,      // projections of the others after the last layer
  kHyperNorm,          // hyper-connections, of the output: norms of the streams, [n, model_dim]
  kHyperDown,          // the map of low rank, [rank, n · model_dim]
  kHyperUp,            // and [n · model_dim, rank]
  kHyperProjection,    // or manifold-constrained: [n, n · model_dim],
  kHyperBase,          // what is added to it, [n],
  kHyperScale,         // and its factor, [1]
  // Roles of a layer.
  kAttentionNorm,  // input norm of a layer, also of one with only a feed-forward block
  kAttentionNormBias,
  kQkv,      // rows of Q, K and V
  kQkvBias,  // biases of Q, K and V, if they are one tensor
  kQ,
  kK,
  kV,
  kQDown,      // MLA: projection of x to the low-rank q
  kQDownNorm,  // MLA: norm of the low-rank q
  kQUp,        // MLA: projection of the low-rank q to q
  kKvDown,     // MLA: projection of x to the latent vector and the RoPE dimensions
  kKvDownNorm,
  kKvUp,        // MLA: latent vector to K and V of all heads, if they are one tensor
  kKUp,         // MLA: latent vector to K per head, transposed: [rank, qk_nope_head_dim]
  kVUp,         // MLA: latent vector to V per head: [value_dim, rank]
  kJointKv,     // projection of x to K and V as one vector (JointConfig)
  kOutputDown,  // its output projection: from the heads of each group, then from all groups
  kOutputUp,
  kEntryValue,  // entries (EntriesConfig): projections of x to values and gates
  kEntryGate,
  kEntryPositions,  // biases of the gates by place, [n_tokens, parts · head_dim]
  kEntryNorm,
  kIndexEntryValue,  // the same of an indexer
  kIndexEntryGate,
  kIndexEntryPositions,
  kIndexEntryNorm,
  kIndexQuery,  // indexer: projection of the low-rank q, or of x, to its queries
  kIndexKey,    // indexer: projection of x to the index key
  kIndexKeyNorm,
  kIndexKeyNormBias,
  kIndexWeights,  // indexer: projection of x to the weights of its heads
  // Indexer: projection of x to the weights of a token's key in the mean of its block, and what is
  // added to them by the token's place in the block, [key_tokens, head_dim].
  // Indexer of K and V that are not latent: projections of x to its queries and key.
  kIndexHeadQuery,
  kIndexHeadKey,
  kIndexQueryNorm,
  kIndexInputNorm,  // indexer: layer norm of the input of its queries
  kIndexInputNormBias,
  kIndexSsmaxScale,  // SSMax of the indexer's queries, and of attention's: scale and bias per head
  kIndexSsmaxBias,
  kSsmaxScale,
  kSsmaxBias,
  kAttentionOutput,
  kAttentionOutputBias,
  kSinks,
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kKNorm,
  kOutputGate,     // projection of x to the output gate of the delta rule or of attention
  kStateBeta,      // gated delta rule: projection of x to β
  kStateAlpha,     // gated delta rule: projection of x to the input of the decay
  kStateGates,     // β and the decay's input of each key head in turn, if they are one tensor
  kStateConv,      // convolution weights: [channels, kernel_size], the oldest first
  kStateStepBias,  // added to the decay's input
  kStateDecay,     // factor of the decay, below 0, or above 0 if the decay has a bound
  kStateNorm,
  kStateOutput,
  kSpaceIn,  // state space: projection of x to gate, channels and steps
  kSpaceConvBias,
  kSpaceSkip,  // state space: factor D of the input of a head
  kSelect,     // Mamba 1: projection of the convolution's output to dt, B and C
  kStepUp,     // Mamba 1: projection of dt to the steps of the channels
  kStepNorm,   // norms of dt, B and C
  kSelectInNorm,
  kSelectOutNorm,
  kQConv,  // KDA: convolution weights of Q, K and V
  kKConv,
  kVConv,
  kDecayDown,  // KDA: projections to the inputs of the decays; of full rank, the first alone
  kDecayUp,
  kGateDown,  // KDA: projections to the output gate, likewise
  kGateUp,
  kConvIn,  // short convolution: projection of x to its three inputs
  kConvWeights,
  kConvOutput,
  kAttentionOutputNorm,  // norm of the sum after attention
  kAttentionOutputNormBias,
  kLayerOutputNorm,  // norm of the sum after the feed-forward block
  kLayerOutputNormBias,
  kPostAttentionNorm,
  kPostFfnNorm,
  kFfnNorm,
  kFfnNormBias,
  kBareFfnNorm,  // the norm before the feed-forward block, in files of Falcon-H1
  kGate,
  kUp,  // rows of gate and up if the file has one tensor for both
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kRouter,
  kScoreBias,
  kCorrectionBias,
  kExpertTable,  // experts of each token, [n_vocab, n_used] integers
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kExpertsLatentDown,  // projections to and from the experts' latent space
  kExpertsLatentUp,
  kSharedExpertGate,  // computed as a row of the router
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kRouterNorm,  // norms of a dense MLP parallel to the experts
  kExpertFactors,
  kExpertsNorm,
  kMlpPostNorm,
  kExpertsPostNorm,
  kPerLayerGate,
  kPerLayerOutput,
  kPerLayerPostNorm,
  kStreamNorm,     // AltUp: norm of the router's input
  kStreamRouter,   // AltUp: [n, model_dim]
  kStreamPredict,  // AltUp: coefficients of predictions, [n², n]
  kStreamCorrect,  // AltUp: coefficients of corrections, [n, n]
  kStreamScale,    // AltUp: factor of the corrected first stream, before the per-layer input
  kLaurelDown,
  kLaurelUp,
  kLaurelNorm,
  kLayerScale,
  kMixerHyperNorm,  // hyper-connections of the mixer, as of the output
  kMixerHyperDown,
  kMixerHyperUp,
  kMixerHyperInject,  // weights of its output in each stream, [n, n · model_dim]
  kFfnHyperNorm,      // hyper-connections of the feed-forward block
  kFfnHyperDown,
  kFfnHyperUp,
  kFfnHyperInject,
  kMixerHyperProjection,  // or manifold-constrained: [(2 + n) · n, n · model_dim],
  kMixerHyperBase,        // what is added to it, [(2 + n) · n],
  kMixerHyperScale,       // and factors of its three parts, [3]
  kFfnHyperProjection,
  kFfnHyperBase,
  kFfnHyperScale,
  kNgramKey,    // n-grams: projection of the embedding to a key for each stream
  kNgramValue,  // and to their value
  kNgramKeyNorm,
  kNgramQueryNorm,    // norm of the streams
  kNgramConvNorm,     // norm of the convolution's inputs
  kNgramConv,         // convolution weights: [channels, kernel_size], the oldest first
  kMtpEmbeddingNorm,  // MTP head: norm of the next token's embedding
  kMtpHiddenNorm,     // MTP head: norm of the hidden state
  // MTP head: projection of both, concatenated, to its input; of EAGLE-3: of the hidden states of
  // all tapped layers
  kMtpProjection,
  kMtpOutputNorm,  // MTP head: norm before the output head
  kMtpHyperNorm,   // MTP head: hyper-connections of its output, as of the model's
  kMtpHyperDown,
  kMtpHyperUp,
  kMtpHyperProjection,
  kMtpHyperBase,
  kMtpHyperScale,
  kMtpEmbedding,  // MTP head: embedding of its own
  kMtpHead,       // MTP head: output projection of its own
  kMtpPost,       // assistant: projection of its output to the width of the model
  // Factors of the changes that the model's own adapters make to its matrices (AdapterSwitch):
  // A is [n, rank, inputs], B is [n, outputs, rank]
  kQLoraA,
  kQLoraB,
  kKLoraA,
  kKLoraB,
  kVLoraA,
  kVLoraB,
  kAttentionOutputLoraA,
  kAttentionOutputLoraB,
  kGateLoraA,
  kGateLoraB,
  kUpLoraA,
  kUpLoraB,
  kDownLoraA,
  kDownLoraB,
};

enum class TensorKind : uint8_t {
  kMatrix,
  kExperts,     // stacked matrices of one shape
  kHeads,       // stacked matrices of heads
  kRouting,     // router weights, and small matrices of encoders: kept as f32
  kNorm,        // a vector around 1, or one per stream
  kBias,        // a vector around 0, or one per expert
  kDivisors,    // a vector that is not stored in backend memory
  kConvKernel,  // convolution weights: kept as f32, whatever their shape
  kDecay,       // a vector around −1, or around 1 if the decay has a bound
  kNumbers,     // integers
  kLoraFactor,  // stacked factors of low-rank changes: kept as f32
};

struct TensorId {
  TensorRole role{};
  uint32_t layer = 0;  // 0 for roles of the whole model
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};

TensorKind kind_of(TensorRole role);
// Returns whether tensors of that kind are lists of numbers and not matrices, whatever their shape.
inline bool is_list(TensorKind kind) {
  return kind == TensorKind::kNorm || kind == TensorKind::kBias || kind == TensorKind::kDivisors ||
         kind == TensorKind::kConvKernel || kind == TensorKind::kDecay ||
         kind == TensorKind::kNumbers || kind == TensorKind::kLoraFactor;
}
inline bool is_of_layer(TensorRole role) { return role >= TensorRole::kAttentionNorm; }
// Returns whether only MTP layers have the role.
inline bool is_of_mtp_head(TensorRole role) {
  return role >= TensorRole::kMtpEmbeddingNorm && role <= TensorRole::kMtpPost;
}

// Returns whether the role is a down projection of an MLP or of experts.
bool is_down_projection(TensorRole role);
// Returns whether quantization errors of the role's matrix cost much for its size.
inline bool is_sensitive(TensorRole role) {
  return role == TensorRole::kV || is_down_projection(role);
}

inline constexpr std::string_view kLayerPrefix = "blk.";
// Returns the name in a GGUF file, such as "blk.3.attn_q.weight".
std::string name_of(TensorId tensor);
// Returns the tensor of that name in a GGUF file; std::nullopt for a name without a role.
std::optional<TensorId> tensor_named(std::string_view name);

// Name that a folder has for the tensors of a role, without the prefix "model.", "model.layers.N."
// or, for tensors of the MTP head only, "mtp.". "{}" is the number of an expert. The name is empty
// if folders have no such tensors.
struct FolderName {
  TensorRole role;
  std::string_view name;
};
std::string_view usual_folder_name(TensorRole role);

// The matrices that a model's own adapters change, and the roles of the changes' factors.
struct LoraRoles {
  TensorRole matrix, a, b;
};
inline constexpr LoraRoles kLoraRoles[] = {
    {TensorRole::kQ, TensorRole::kQLoraA, TensorRole::kQLoraB},
    {TensorRole::kK, TensorRole::kKLoraA, TensorRole::kKLoraB},
    {TensorRole::kV, TensorRole::kVLoraA, TensorRole::kVLoraB},
    {TensorRole::kAttentionOutput, TensorRole::kAttentionOutputLoraA,
     TensorRole::kAttentionOutputLoraB},
    {TensorRole::kGate, TensorRole::kGateLoraA, TensorRole::kGateLoraB},
    {TensorRole::kUp, TensorRole::kUpLoraA, TensorRole::kUpLoraB},
    {TensorRole::kDown, TensorRole::kDownLoraA, TensorRole::kDownLoraB},
};

// A tensor that a model has or may have.
struct TensorSpec {
  TensorId id;
  std::vector<uint64_t> shape;  // rows first, the dimension summed over last
  bool is_optional = false;     // some files of such models lack it
};

// Lists all tensors of a model with that config, in the usual order of files. Immutable.
class TensorTable {
 public:
  explicit TensorTable(const ModelConfig& config);

  std::span<const TensorSpec> all() const { return specs_; }
  // Returns null if the model has no such tensor.
  const TensorSpec* find(TensorId tensor) const;

  // Returns whether a file of such a model may contain an unused tensor of that name: of MTP
  // layers, of vision and audio parts, or K and V of layers that share another layer's.
  bool may_be_unused(std::string_view name) const;

 private:
  void list_embeddings(const ModelConfig& c, const EncoderConfig& encoder);
  void list_classifier(const ModelConfig& c, const EncoderConfig& encoder);
  void list_head(const ModelConfig& c);

  uint32_t n_layers_, n_mtp_layers_;
  std::set<TensorId> unused_;  // K and V of layers that share another layer's
  std::vector<TensorSpec> specs_;
  std::map<TensorId, size_t> places_;
};

}  // namespace kvik
