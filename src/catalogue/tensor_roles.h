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

// What a tensor is for. With the number of its layer a role names one tensor of a model, whatever
// its file calls it.
enum class TensorRole : uint8_t {
  // Of the whole model.
  kEmbedding,
  kRopeDivisors,       // of the rotation frequencies, for all contexts
  kLongRopeDivisors,   // for contexts beyond what the model was first trained on
  kShortRopeDivisors,  // up to that
  kOutputNorm,
  kEmbeddingsNorm,  // the same, as some families call it
  kHead,
  kPerLayerEmbedding,       // [n_vocab, n_layers · per_layer_dim]
  kPerLayerProjection,      // of what enters the first layer, to the same
  kPerLayerProjectionNorm,  // of each layer's part
  // Of a layer.
  kAttentionNorm,  // of a layer's input; of one that has a feed-forward alone, too
  kQkv,            // Q over K over V
  kQ,
  kK,
  kV,
  kQDown,      // of latent attention: x to q's low rank,
  kQDownNorm,  // which is normed
  kQUp,        // and becomes q
  kKvDown,     // x to the latent vector over what turns
  kKvDownNorm,
  kKvUp,  // the latent vector to K and V of all heads, in files that do not part them
  kKUp,   // of each head, transposed: [rank, still_dim]
  kVUp,   // likewise: [value_dim, rank]
  kAttentionOutput,
  kAttentionOutputBias,
  kSinks,
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kKNorm,
  kStateGate,      // of recurrent layers: x to the gate of their output,
  kStateBeta,      // to how far a value is corrected,
  kStateAlpha,     // and to the decay
  kStateGates,     // β over the decay's input, of each key head in turn, where they are one tensor
  kStateTaps,      // of the convolution: [channels, taps], the oldest first
  kStateStepBias,  // added to what makes the decay
  kStateDecay,     // its factor, below 0
  kStateNorm,
  kStateOutput,
  kSpaceIn,  // of a state space: x to gate, channels and steps
  kSpaceTapsBias,
  kSpaceSkip,  // of each head's input
  kConvIn,     // of a short convolution
  kConvTaps,
  kConvOutput,
  kPostAttentionNorm,
  kPostFfnNorm,
  kFfnNorm,
  kGate,
  kUp,  // gate over up where the file has one tensor for both
  kDown,
  kGateBias,
  kUpBias,
  kDownBias,
  kRouter,
  kScoreBias,
  kChoiceBias,
  kExpertGate,
  kExpertUp,
  kExpertDown,
  kExpertGateBias,
  kExpertUpBias,
  kExpertDownBias,
  kSharedExpertGate,  // a row of the router's product
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kRouterNorm,  // of an MLP beside experts and what belongs to it
  kExpertFactors,
  kExpertsNorm,
  kMlpPostNorm,
  kExpertsPostNorm,
  kPerLayerGate,
  kPerLayerOutput,
  kPerLayerPostNorm,
  kLayerScale,
  kGuessEmbeddingNorm,  // of the guesser: of the next token's embedding,
  kGuessHiddenNorm,     // of the hidden state before it,
  kGuessInput,          // the first over the second to its input
  kGuessOutputNorm,     // before the head
};

enum class TensorKind : uint8_t {
  kMatrix,
  kExperts,   // matrices of one shape, stacked
  kHeads,     // the same of heads
  kRouting,   // decides where tokens go: held as f32, and multiplied with
  kNorm,      // a vector around 1
  kBias,      // a vector around 0, or one for each expert
  kDivisors,  // a vector that never reaches the backend's memory
  kTaps,      // of convolutions: held as f32, whatever their shape
  kDecay,     // a vector around −1
};

struct TensorId {
  TensorRole role{};
  uint32_t layer = 0;  // 0 for those of the whole model
  friend auto operator<=>(const TensorId&, const TensorId&) = default;
};

TensorKind kind_of(TensorRole role);
// Whether tensors of that kind are lists of numbers, whatever their shape, and no matrices.
inline bool is_list(TensorKind kind) {
  return kind == TensorKind::kNorm || kind == TensorKind::kBias || kind == TensorKind::kDivisors ||
         kind == TensorKind::kTaps || kind == TensorKind::kDecay;
}
inline bool is_of_layer(TensorRole role) { return role >= TensorRole::kAttentionNorm; }

// Whether it is one of those whose errors cost most for their size: what attention gathers, and
// what a feed-forward adds to the residual stream.
bool is_down_projection(TensorRole role);
inline bool is_sensitive(TensorRole role) {
  return role == TensorRole::kV || is_down_projection(role);
}

inline constexpr std::string_view kLayerPrefix = "blk.";
// In a GGUF file: "blk.3.attn_q.weight".
std::string name_of(TensorId tensor);
// Empty for a name that no role has.
std::optional<TensorId> tensor_named(std::string_view name);

// What a folder calls the tensors of a role, behind "model." or "model.layers.N.", or "mtp." of the
// guesser's own; "{}" stands for the number of an expert. Empty where folders have no such tensors.
struct FolderName {
  TensorRole role;
  std::string_view name;
};
std::string_view usual_folder_name(TensorRole role);

struct TensorSpec {
  TensorId id;
  std::vector<uint64_t> shape;  // rows first, the dimension summed over last
  bool is_optional = false;     // some files of such models have it
};

// All tensors of a model of that config, in the usual order of files. Immutable.
class TensorTable {
 public:
  explicit TensorTable(const ModelConfig& config);

  std::span<const TensorSpec> all() const { return specs_; }
  // Null where the model has no such tensor.
  const TensorSpec* find(TensorId tensor) const;

  // Whether a file of such a model may have a tensor of that name that is not used: of layers that
  // guess further tokens, of what sees or hears, or K and V where another layer's are read.
  bool may_leave_alone(std::string_view name) const;

 private:
  uint32_t n_layers_, n_guessing_layers_;
  std::set<TensorId> unused_;  // of layers that read another's K and V
  std::vector<TensorSpec> specs_;
  std::map<TensorId, size_t> places_;
};

}  // namespace kvik
