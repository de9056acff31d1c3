#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {

// Where "sliding_window" of a config.json counts: nowhere, always, or with "use_sliding_window".
enum class FolderWindow : uint8_t { kNone, kStated, kIfAsked };

// How stacks of experts lie: [experts, rows, columns], the gates over the ups; as gpt-oss has them
// (interleaved_experts.h); or each matrix transposed (Qwen3-VL).
enum class ExpertStacks : uint8_t { kUsual, kInterleaved, kTransposed };

// A type of models as Hugging Face's transformers writes them: what config.json leaves unsaid, and
// how its tensors differ from those of a GGUF file.
struct FolderType {
  std::string_view model_type;       // in config.json
  std::string_view whole_type = {};  // of a model whose "text_config" is such a one
  std::string_view defaults;         // JSON, of what config.json may leave out
  FolderWindow window = FolderWindow::kNone;
  bool has_experts = false;
  bool norms_lack_one = false;    // their weights are stored less one
  bool has_query_scalar = false;  // attention is scaled by its root
  bool is_interleaved =
      false;  // heads' rows lie as in a GGUF file, though neighbours turn together
  ExpertStacks stacks = ExpertStacks::kUsual;
  std::span<const FolderName> names = {};  // of tensors that are not called as usual
  // Where the experts of a layer lie together: gates over ups, and downs.
  std::string_view gate_up_stack = "mlp.experts.gate_up_proj";
  std::string_view down_stack = "mlp.experts.down_proj";
  std::string_view gate_up_bias_stack = "mlp.experts.gate_up_proj_bias";
  std::string_view down_bias_stack = "mlp.experts.down_proj_bias";
  bool has_gates_over_ups = false;  // in one tensor, of what GGUF files have in two
};

// How layers that do not attend remember.
enum class Recurrence : uint8_t { kNone, kDelta, kShortConv, kStateSpace };

// Tensors that no member of a family has, that some have, or that all have.
enum class Presence : uint8_t { kNone, kOptional, kAlways };

// Layers with a window turn by a base of their own in some families, which no key of a file
// changes.
inline constexpr float kLocalRopeBase = 10000.0f;

struct AttentionTraits {
  Presence qkv_bias = Presence::kNone;
  Presence output_bias = Presence::kNone;
  QkNorm qk_norm = QkNorm::kNone;
  bool is_qk_norm_optional = false;  // some members have none
  bool is_fused = false;             // one tensor for Q, K and V, and one for gate and up
  bool has_sinks = false;
  bool has_output_gate = false;
  bool is_latent = false;     // LatentConfig
  bool is_unscaled = false;   // q·k is not scaled, unless a key says so
  double soft_cap = 0;        // that random models of the family state
  uint32_t global_every = 1;  // one layer in so many sees everything; 1: the window is for all
  uint32_t global_at = 0;     // layer i is global where i % global_every == global_at

  // Returns true for a layer that has the window which the file states.
  bool is_windowed(uint32_t layer) const {
    return global_every <= 1 || layer % global_every != global_at;
  }
};

struct RopeTraits {
  RopePairing pairing = RopePairing::kInterleaved;  // folders pair (i, i + n_pairs) always
  bool may_be_absent = false;                       // unless a key says that it is there
  bool is_yarn_whole = true;                        // YarnConfig::is_whole
};

struct NormTraits {
  double eps = 1e-5;  // that random models of the family state
  bool has_pre_norms = true;
  bool has_post_norms = false;
  bool is_ffn_norm_post_attention = false;  // as its tensors are called
  bool is_last_norm_embeddings = false;     // as its tensor is called
};

// A key of the file says whether a model has experts.
struct ExpertTraits {
  bool normalizes = true;
  bool has_shared_gate = false;
  ExpertScoring scoring = ExpertScoring::kSoftmax;  // unless a key says another
  bool has_score_bias = false;
  Presence choice_bias = Presence::kNone;
  bool has_biases = false;
};

struct RecurrenceTraits {
  Recurrence kind = Recurrence::kNone;
  ValueHeadOrder value_heads = ValueHeadOrder::kTiled;
  bool is_delta_gate_fused = false;
};

class KeyReader;

// A family of models: what its files do not say themselves. All that is known of a family, and of
// its folders, stands in one file of families/.
struct Family {
  std::string_view name;  // "general.architecture" of a GGUF file
  Activation activation = Activation::kSilu;
  AttentionTraits attention = {};
  RopeTraits rope = {};
  NormTraits norms = {};
  std::optional<ExpertTraits> experts = {};
  RecurrenceTraits recurrence = {};
  bool scales_embedding = false;  // by sqrt(model_dim)
  bool has_scales = false;        // of embedding, residual, attention and logits, by keys
  bool may_have_mlp_biases = false;
  double logit_soft_cap = 0;  // that random models of the family state
  // KV heads and MLPs are lists, with an entry for each layer.
  bool has_layer_kinds = false;
  // A layer is a mixer or a feed-forward, as lists of the file say (Nemotron-H).
  bool has_half_layers = false;
  // Reads what no other family has, into a config that is complete but for that.
  Result<void> (*finish)(const KeyReader& keys, ModelConfig& config) = nullptr;
  std::span<const FolderType> folders = {};
  // What folders call tensors, where they are read as those of another family: adapters are made
  // for those.
  std::span<const FolderName> modules = {};
};

// In the order in which messages list them.
std::span<const Family* const> all_families();
// Null where there is none of that name.
const Family* find_family(std::string_view architecture);
std::string known_architectures();  // "llama, qwen2, …", for messages
std::string families_with_experts();

// Empty where the type is not known.
struct FamilyFolder {
  const Family* family = nullptr;
  const FolderType* type = nullptr;
};
FamilyFolder find_folder_type(std::string_view model_type);
std::string known_model_types();  // "llama, mistral, …"

// What such a folder calls the tensors of a role (tensor_roles.h).
std::string_view folder_name(const FolderType& type, TensorRole role);
// Whether some folder of the family calls the tensors of the role so.
bool is_folder_name(const Family& family, TensorRole role, std::string_view name);

}  // namespace kvik
