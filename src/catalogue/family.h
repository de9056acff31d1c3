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

// Windowed layers turn by a base of their own in some families, which no key of a file changes.
inline constexpr float kLocalRopeBase = 10000.0f;

// A family of models: what its files do not say themselves. All that is known of a family stands in
// its one entry in families.cpp, and of its folders in folder_types.h.
struct Family {
  std::string_view name;                            // "general.architecture" of a GGUF file
  RopePairing pairing = RopePairing::kInterleaved;  // folders pair (i, i + n_pairs) always
  Activation activation = Activation::kSilu;
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_sinks = false;
  bool has_latent = false;  // LatentConfig
  bool has_output_gate = false;
  Recurrence recurrence = Recurrence::kNone;
  ValueHeadOrder value_heads = ValueHeadOrder::kTiled;
  bool is_delta_gate_fused = false;
  // A layer is a mixer or a feed-forward, as lists of the file say (Nemotron-H).
  bool has_half_layers = false;
  bool may_lack_rope = false;            // unless a key says that it is there
  bool is_last_norm_embeddings = false;  // as its tensor is called
  QkNorm qk_norm = QkNorm::kNone;
  // Some members have none.
  bool is_qkv_bias_optional = false, is_output_bias_optional = false, is_qk_norm_optional = false;
  bool may_have_mlp_biases = false;
  bool is_ffn_norm_post_attention = false;  // as its tensors are called
  bool has_pre_norms = true;
  bool has_post_norms = false;
  bool is_fused = false;           // QKV, and gate with up
  bool scales_embedding = false;   // by sqrt(model_dim)
  bool has_scales = false;         // of embedding, residual, attention and logits, by keys
  uint32_t global_every = 1;       // one layer in so many sees everything; 1: the window is for all
  uint32_t global_at = 0;          // layer i is global where i % global_every == global_at
  bool has_local_rope = false;     // windowed layers turn by kLocalRopeBase
  uint32_t wide_scale_layers = 0;  // the member of so many layers scales q·k by the heads' share of
                                   // model_dim in place of head_dim
  bool has_experts = false;  // may be, by a key of the file
  bool normalizes_experts = true;
  bool has_shared_gate = false;
  ExpertScoring scoring = ExpertScoring::kSoftmax;  // unless a key says another
  bool has_score_bias = false, has_choice_bias = false, has_expert_biases = false;
  bool is_choice_bias_optional = false;  // some members have none
  bool has_temperature = false;          // may be, by a key of the file
  bool is_unscaled = false;              // q·k is not scaled, unless a key says so
  // Layers differ by keys of the file: which have a window, and the heads, frequencies and MLPs of
  // each; which read another's K and V; what each knows of the token itself (layer_kinds.h).
  bool has_layer_kinds = false;
  bool has_mlp_beside_experts = false;
  bool is_yarn_whole = true;  // YarnConfig::is_whole
  // What random models of the family say in their files, as real ones do.
  double norm_eps = 1e-5;
  double attention_soft_cap = 0;
  double logit_soft_cap = 0;
  std::span<const FolderType> folders = {};
  // What folders call tensors, where they are read as those of another family: adapters are made
  // for those.
  std::span<const FolderName> modules = {};

  // Whether a layer has the window that the file states.
  bool is_windowed(uint32_t layer) const {
    return global_every <= 1 || layer % global_every != global_at;
  }
};

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
