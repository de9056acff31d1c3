#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {

// When "sliding_window" of a config.json applies: never, always, only with "use_sliding_window", or
// to the layers that "layer_types" lists. Or "attention_chunk_size" applies instead.
enum class FolderWindow : uint8_t { kNone, kStated, kIfEnabled, kListed, kChunked };

// Layout of stacked expert weights: [experts, rows, columns] with gate before up; interleaved as in
// gpt-oss (interleaved_experts.h); or each matrix transposed (Qwen3-VL).
enum class ExpertStacks : uint8_t { kUsual, kInterleaved, kTransposed };

// A key of config.json, and the name that other model types have for it. If it `replaces` that
// name, which then means something else, keys before it in a list may use the other value.
struct FolderKey {
  std::string_view name, usual;
  bool replaces = false;
};

// A number, boolean or string of config.json, and its key in a GGUF file.
struct FolderValue {
  std::string_view name, gguf;
};

// Names of an MTP layer's tensors in a folder. In all of them, "{}" is the number of the first
// layer after the others.
struct MtpNames {
  std::string_view head_prefix = {};       // of tensors that only MTP layers have
  std::string_view layer_prefix;           // of the others
  std::span<const FolderName> names = {};  // names that differ from the usual ones
  bool is_in_model = true;                 // the prefix of the text model's tensors precedes them
  // End of the name of a tensor that shows that the layer is there; empty: a key says so.
  std::string_view sign = {};
  // Names of the two tensors whose columns form kMtpProjection; empty: it is one tensor.
  std::string_view embedding_half = {}, hidden_half = {};
  bool norms_streams_together = false;  // StreamNorm::kTogether
};
// Qwen's names.
inline constexpr MtpNames kSeparateMtpNames{.head_prefix = "mtp.",
                                            .layer_prefix = "mtp.layers.0.",
                                            .is_in_model = false,
                                            .sign = "mtp.fc.weight"};
inline constexpr FolderName kUsualMtpNames[] = {
    {TensorRole::kMtpEmbeddingNorm, "enorm.weight"},
    {TensorRole::kMtpHiddenNorm, "hnorm.weight"},
    {TensorRole::kMtpProjection, "eh_proj.weight"},
    {TensorRole::kMtpOutputNorm, "shared_head.norm.weight"},
    {TensorRole::kMtpHead, "shared_head.head.weight"},
};
// DeepSeek's names, in a layer that follows the others.
inline constexpr MtpNames kLayerMtpNames{
    .head_prefix = "layers.{}.", .layer_prefix = "layers.{}.", .names = kUsualMtpNames};

// A "model_type" of Hugging Face Transformers: defaults of its config.json, and how its tensors
// differ from those of a GGUF file.
struct FolderType {
  std::string_view model_type;  // value of "model_type" in config.json
  // model_type of a multimodal model whose "text_config" has this type
  std::string_view multimodal_type = {};
  // The text_config of such a model is read as this type whatever type it states.
  bool is_any_text_type = false;
  std::string_view defaults;             // JSON with the values that config.json may omit
  std::span<const FolderKey> keys = {};  // keys that have another name than usual
  std::span<const FolderValue> values = {};
  // Without "intermediate_size" the MLP is this many times as wide as the model; 0: it is required.
  uint32_t usual_ffn_factor = 0;
  // JSON with keys of which only that value is supported, or those of a list that begins with a
  // boolean
  std::string_view fixed = {};
  FolderWindow window = FolderWindow::kNone;
  bool has_experts = false;
  bool has_zero_centered_norms = false;  // norm weights are stored minus one
  bool is_last_norm_centered = true;     // that of the last norm, too
  // Q and K are normalized without weights, and "qk_scale_factor" is a factor of Q. GGUF files have
  // these numbers as weights.
  bool has_plain_qk_norm = false;
  bool has_query_scalar = false;  // attention is scaled by 1 / sqrt(query_pre_attn_scalar)
  // Rows of a head are ordered as in a GGUF file, although RoPE rotates adjacent pairs.
  bool is_interleaved = false;
  // The tensor of Q, K and V has their rows for each head in turn (GPT-NeoX).
  bool has_qkv_by_head = false;
  // Layers with a window have this many times the KV heads of the others.
  uint32_t window_kv_factor = 1;
  bool has_transposed_matrices = false;  // matrices of the layers are stored transposed (GPT-2)
  ExpertStacks stacks = ExpertStacks::kUsual;
  std::span<const FolderName> names = {};        // names of tensors that differ from the usual ones
  std::span<const FolderName> other_names = {};  // names of tensors that lack those names
  // Prefix of an MLP's names that replaces "mlp." in some folders; empty: none.
  std::string_view other_mlp = {};
  // Name of attention's output projection in the layers that lack the first one; empty: none.
  std::string_view other_output = {};
  // Names of the stacked experts of a layer: gate and up, and down.
  std::string_view gate_up_stack = "mlp.experts.gate_up_proj";
  std::string_view up_stack = {};  // of up alone if gate_up_stack has only gate
  std::string_view down_stack = "mlp.experts.down_proj";
  std::string_view gate_up_bias_stack = "mlp.experts.gate_up_proj_bias";
  std::string_view down_bias_stack = "mlp.experts.down_proj_bias";
  bool has_shared_indexers = false;  // keys of layers with a shared indexer (indexer_keys.h)
  bool has_sparse_layers = false;    // keys of layers with an indexer (indexer_keys.h)
  bool has_latent_keys = false;      // keys of layers with MLA that differ (latent_keys.h)
  bool has_entry_keys = false;       // keys of layers with entries (entry_keys.h)
  // Keys of n-grams (format/hf/keys/ngram_keys.h); queries and key of an indexer are one tensor.
  bool has_ngrams = false;
  bool has_step_keys = false;      // StepFun's keys (format/hf/keys/step_keys.h)
  bool has_block_keys = false;     // keys of Nemotron 3 Puzzle (format/hf/keys/block_keys.h)
  bool has_switch_keys = false;    // keys of Granite Switch (format/hf/keys/switch_keys.h)
  bool has_fused_gate_up = false;  // gate and up are one tensor, of which GGUF files make two
  bool is_encoder = false;
  bool has_dense_modules = false;  // sentence-transformers may have Dense modules after pooling
  bool ends_with_global_layer = false;  // the last layer has full attention, whatever keys say
  bool has_mtp_types = false;           // "mtp_layer_types" says whether MTP layers have a window
  std::string_view layers = "layers.";  // prefix of the number of a layer
  const MtpNames* mtp = &kLayerMtpNames;
  // The first rows of the table of positions are unused: as many as the padding token's id, and one
  // (RoBERTa). GGUF files leave them out.
  bool has_padding_positions = false;
};

// Kind of the recurrent layers.
enum class Recurrence : uint8_t { kNone, kDelta, kShortConv, kStateSpace, kSelective, kKda };

// Occurrence of certain tensors in the models of a family.
enum class Presence : uint8_t { kNone, kOptional, kAlways };

// RoPE base of the sliding-window layers of Gemma 3, where no key changes it, and the default for
// those of Gemma 4.
inline constexpr float kLocalRopeBase = 10000.0f;

struct AttentionTraits {
  Presence qkv_bias = Presence::kNone;
  Presence output_bias = Presence::kNone;
  QkNorm qk_norm = QkNorm::kNone;
  bool is_qk_norm_optional = false;  // some models have no QK norm
  bool is_fused = false;             // one tensor for Q, K and V
  bool has_sinks = false;
  OutputGate output_gate = OutputGate::kNone;
  GateFunction gate_function = GateFunction::kSigmoid;
  bool lists_heads = false;             // layers may have different numbers of heads
  bool may_have_narrow_values = false;  // AttentionConfig::value_dim
  bool is_norm_after_rope = false;      // q and k are normalized after RoPE
  bool is_latent = false;               // multi-head latent attention (LatentConfig)
  bool is_joint = false;                // K and V are one vector (JointConfig)
  bool is_unscaled = false;             // q·k is not scaled unless a key says so
  double soft_cap = 0;                  // value in synthetic models of the family
  // Every n-th layer has full attention; 1: all layers have the window.
  uint32_t global_every = 1;
  uint32_t global_at = 0;            // layer i has full attention if i % global_every == global_at
  bool lists_windows = false;        // files may list the layers that have the window
  bool is_global_unrotated = false;  // beside layers with a window, the others have no RoPE
  uint32_t unrotated_every = 0;      // every n-th layer has no RoPE; 0: all layers have it

  // Returns whether a layer has the sliding window that the file states.
  bool is_windowed(uint32_t layer) const {
    return global_every <= 1 || layer % global_every != global_at;
  }
  // Returns whether a layer has RoPE. `is_global`: it has full attention, beside layers with a
  // window.
  bool is_rotated(uint32_t layer, bool is_global) const {
    if (is_global && is_global_unrotated) return false;
    return unrotated_every == 0 || (layer + 1) % unrotated_every != 0;
  }
};

struct RopeTraits {
  // Pairing in GGUF files. Folders pair (i, i + n_pairs) unless FolderType::is_interleaved is set.
  RopePairing pairing = RopePairing::kInterleaved;
  bool may_be_absent = false;  // no RoPE, unless "rope.scaling.finetuned" is true
  bool is_yarn_whole = true;   // YarnConfig::is_whole
  // The scaling does not apply to layers with a window, which may have another base and another
  // number of rotated dimensions.
  bool is_window_unscaled = false;
  // Layers without a window rotate half of the dimensions that files state.
  bool is_global_halved = false;
  bool is_absent = false;  // heads of MLA have no RoPE dimensions
};

struct NormTraits {
  double eps = 1e-5;          // value in synthetic models of the family
  double post_eps = 0;        // of the norms of outputs; 0: that of the others
  bool of_embedding = false;  // ModelConfig::has_embedding_norm
  NormKind kind = NormKind::kRms;
  bool has_pre_norms = true;
  bool has_post_norms = false;
  bool is_ffn_norm_post_attention = false;  // the tensor of the FFN norm is "post_attention_norm"
  bool is_ffn_norm_bare = false;            // ModelConfig::is_ffn_norm_bare
  bool is_last_norm_embeddings = false;     // the tensor of the last norm is "token_embd_norm"
  bool is_shared = false;                   // by both halves of a layer
};

// Experts of the models of a family. A key of the file says whether a model has experts.
struct ExpertTraits {
  bool normalizes = true;
  bool has_shared_gate = false;
  ExpertScoring scoring = ExpertScoring::kSoftmax;  // unless a key says otherwise
  bool has_score_bias = false;
  uint32_t n_dense_layers = 0;  // first layers without experts, unless a key says otherwise
  Presence correction_bias = Presence::kNone;
  bool has_biases = false;
  bool weighs_input = false;  // ExpertsConfig::weighs_input
  // Sizes and numbers of experts may be lists with an entry for each layer, 0 for layers without
  // experts. The family's `finish` reads them.
  bool lists_sizes = false;
};

struct RecurrenceTraits {
  Recurrence kind = Recurrence::kNone;
  ValueHeadOrder value_heads = ValueHeadOrder::kTiled;
  bool is_delta_gate_fused = false;
  bool is_kda_bounded = false;  // KdaConfig::bound, and projections of full rank
  // The bound is absent if no key states it; KDA is otherwise as in models without a bound.
  bool is_kda_bound_optional = false;
  bool is_beside_attention = false;  // LayerConfig::beside, in all layers
};

class KeyReader;

// An MTP layer with the attention of the model and the feed-forward block of its last layer.
Result<LayerConfig> usual_mtp_layer(const KeyReader& keys, const ModelConfig& config);
// Returns an MTP layer with the usual attention and an MLP, in models with experts too.
Result<LayerConfig> dense_mtp_layer(const KeyReader& keys, const ModelConfig& config);

// A model family: the features that its files do not state themselves. Everything specific to a
// family and its folders is in one file of families/.
struct Family {
  std::string_view name;  // "general.architecture" of a GGUF file
  Activation activation = Activation::kSilu;
  AttentionTraits attention = {};
  RopeTraits rope = {};
  NormTraits norms = {};
  std::optional<ExpertTraits> experts = {};
  RecurrenceTraits recurrence = {};
  bool has_positions = false;        // ModelConfig::has_positions
  bool scales_embedding = false;     // embeddings are multiplied by sqrt(model_dim)
  bool has_parallel_halves = false;  // ModelConfig::has_parallel_halves
  bool has_logit_factor = false;     // "logit_scale" is a factor of the logits
  bool has_scales = false;  // keys give scales of embedding, residual stream, attention and logits
  Presence mlp_bias = Presence::kNone;
  bool has_fused_mlp = false;  // gate and up are one tensor
  bool has_head_bias = false;
  double logit_soft_cap = 0;  // value in synthetic models of the family
  // The numbers of KV heads and the MLP sizes are lists with an entry per layer.
  bool has_layer_kinds = false;
  // Each layer has either a mixer or a feed-forward block; lists in the file say which
  // (Nemotron-H).
  bool has_single_block_layers = false;
  // Features of encoders; absent: the family generates text.
  std::optional<EncoderConfig> encoder = {};
  // Reads what only this family has into an otherwise complete config; null: nothing.
  Result<void> (*finish)(const KeyReader& keys, ModelConfig& config) = nullptr;
  // Returns the config of the first MTP layer of a model that has some (ModelConfig::has_mtp_head);
  // null: such layers are ignored.
  Result<LayerConfig> (*mtp_layer)(const KeyReader& keys, const ModelConfig& config) = nullptr;
  bool is_mtp_hidden_raw = false;              // ModelConfig::is_mtp_hidden_raw
  bool lacks_mtp_output_norm = false;          // ModelConfig::lacks_mtp_output_norm
  std::optional<StreamNorm> mtp_streams = {};  // ModelConfig::mtp_streams
  std::span<const FolderType> folders = {};
  // Tensor names that adapters refer to, for a family whose folders have other names, or are read
  // as those of another family.
  std::span<const FolderName> modules = {};
};

// Returns all families in the order in which messages list them.
std::span<const Family* const> all_families();
// Returns null if there is no family of that name.
const Family* find_family(std::string_view architecture);
std::string known_architectures();  // "llama, qwen2, …", for messages
std::string families_with_experts();

// A model type and its family; both null if the model type is not known.
struct FamilyFolder {
  const Family* family = nullptr;
  const FolderType* type = nullptr;
};
// Returns the folder type with that "model_type".
FamilyFolder find_folder_type(std::string_view model_type);
// Returns the type of the text model in multimodal models of that type; null if there is none.
const FolderType* find_text_type(std::string_view multimodal_type);
std::string known_model_types();  // "llama, mistral, …"

// Returns the name that such a folder has for the tensors of a role (tensor_roles.h).
std::string_view folder_name(const FolderType& type, TensorRole role);
// Returns the name of a tensor that lacks that name; empty if there is none.
std::string_view other_folder_name(const FolderType& type, TensorRole role);
// Likewise, for tensors of an MTP layer.
std::string_view mtp_folder_name(const FolderType& type, TensorRole role);
// Returns whether some folder type of the family has that name for the tensors of the role.
bool is_folder_name(const Family& family, TensorRole role, std::string_view name);

}  // namespace kvik
