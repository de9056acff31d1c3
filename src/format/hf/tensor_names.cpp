#include "format/hf/tensor_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/quantity.h"
#include "catalogue/kv_source.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/hf/grouped_tensors.h"
#include "format/hf/interleaved_experts.h"
#include "format/hf/mtp_layer.h"
#include "format/hf/names/ignored_names.h"
#include "format/hf/parts/ngram_tensors.h"
#include "format/hf/parts/tensor_parts.h"
#include "format/hf/state_tensors.h"
#include "format/hf/tensor_shapes.h"
#include "format/hf/xielu.h"
#include "format/latent_up.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

// Prefixes of the text model's tensors in multimodal models.
constexpr std::string_view kPrefixes[] = {
    "language_model.model.", "model.language_model.", "backbone.", "gpt_neox.", "transformer.", ""};
// Prefixes of encoders; models for embeddings have none.
constexpr std::string_view kEncoderPrefixes[] = {"bert.", "roberta.", "model.", ""};
constexpr std::string_view kBarePrefixes[] = {"classifier.", "dense_"};  // of whole names
constexpr std::string_view kMlpPrefix = "mlp.";
constexpr std::string_view kMtpPrefix = "mtp.";
constexpr std::string_view kOtherHeads[] = {"language_model.lm_head.weight", "embed_out.weight"};

bool starts_with_any(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Maps the tensors of a folder to the names of a GGUF file. Used while a folder is opened.
class FolderTensors {
 public:
  FolderTensors(ModelSource& source, const FolderConfig& config, const ModelConfig& model)
      : source_(source), config_(config), model_(model), taken_(source.tensors().size()) {
    for (size_t i = 0; i < taken_.size(); ++i) by_name_.emplace(source.tensors()[i].name, i);
    head_names_ = {folder_name(*config.type, TensorRole::kHead)};
    head_names_.insert(head_names_.end(), std::begin(kOtherHeads), std::end(kOtherHeads));
    const std::string_view embedding = folder_name(*config.type, TensorRole::kEmbedding);
    const std::span<const std::string_view> prefixes =
        config.type->is_encoder ? kEncoderPrefixes : std::span<const std::string_view>(kPrefixes);
    const std::string_view other = other_folder_name(*config.type, TensorRole::kEmbedding);
    for (const std::string_view prefix : prefixes) {
      if (by_name_.contains(fmt::format("{}{}", prefix, embedding))) prefix_ = prefix;
    }
    if (!other.empty() && has(fmt::format("model.{}", other))) prefix_ = "model.";
    if (model.has_mtp_head) {
      model_.has_mtp_embedding = has_of_mtp_head(TensorRole::kMtpEmbedding);
      model_.has_mtp_output = has_of_mtp_head(TensorRole::kMtpHead);
    }
  }

  Result<std::vector<ArrangedTensor>> arrange() {
    const TensorTable table(model_);
    for (const ConfigVector& vector : config_.vectors) add_vector(vector);
    for (const TensorSpec& spec : table.all()) TRY(take(spec));
    TRY(check_all_taken());
    return std::move(arranged_);
  }
  // Returns whether arrange() failed because a tensor is missing.
  bool is_incomplete() const { return is_incomplete_; }

 private:
  Result<size_t> find(const std::string& name) {
    const auto found = by_name_.find(name);
    is_incomplete_ = found == by_name_.end();
    if (is_incomplete_) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name));
    }
    taken_[found->second] = true;
    return found->second;
  }
  bool has(const std::string& name) const { return by_name_.contains(name); }
  Result<void> add(Result<ArrangedTensor> tensor) {
    if (!tensor) return std::unexpected(tensor.error());
    arranged_.push_back(*std::move(tensor));
    return {};
  }

  // Returns "model.layers.3." for a tensor of that layer.
  std::string prefix_of(TensorId tensor) const {
    if (!is_of_layer(tensor.role)) return prefix_;
    if (tensor.layer == model_.n_layers) return mtp_prefix_of(tensor);
    return fmt::format("{}{}{}.", prefix_, config_.type->layers, tensor.layer);
  }

  std::string mtp_prefix_of(TensorId tensor) const {
    const MtpNames& names = *config_.type->mtp;
    const bool is_of_head = is_of_mtp_head(tensor.role);
    const std::string prefix = fmt::format(
        fmt::runtime(is_of_head ? names.head_prefix : names.layer_prefix), model_.n_layers);
    return names.is_in_model ? prefix_ + prefix : prefix;
  }

  bool has_of_mtp_head(TensorRole role) const {
    const TensorId tensor{role, model_.n_layers};
    return has(mtp_prefix_of(tensor) + std::string(own_name_of(tensor)));
  }

  // Returns whether the tensor mixes the streams of an MTP head that has others of the kind.
  bool is_of_stated_mix(TensorRole role) const {
    using enum TensorRole;
    constexpr TensorRole kMix[] = {kMtpHyperProjection, kMtpHyperBase, kMtpHyperScale};
    return std::ranges::find(kMix, role) != std::end(kMix) &&
           std::ranges::any_of(kMix, [&](TensorRole other) { return has_of_mtp_head(other); });
  }

  // Returns the name of a tensor after its prefix.
  std::string_view own_name_of(TensorId tensor) const {
    const bool is_of_mtp = is_of_layer(tensor.role) && tensor.layer == model_.n_layers;
    return is_of_mtp ? mtp_folder_name(*config_.type, tensor.role)
                     : folder_name(*config_.type, tensor.role);
  }

  Result<void> take(const TensorSpec& spec) {
    const TensorRole role = spec.id.role;
    const TensorKind kind = kind_of(role);
    if (role == TensorRole::kRopeDivisors && !own_name_of(spec.id).empty()) {
      return take_rope_exponents(spec);
    }
    if (kind == TensorKind::kDivisors || is_stated(spec.id)) return {};  // in config.json
    if (role == TensorRole::kHead) return take_head(spec);
    if (role == TensorRole::kClassifier && model_.reranker) return take_score_rows(spec);
    if (role == TensorRole::kPerLayerEmbedding && model_.ngrams) return take_ngrams(spec);
    const std::string_view own_name = own_name_of(spec.id);
    const bool is_bare = role == TensorRole::kHeadBias ||
                         (config_.type->is_encoder && starts_with_any(own_name, kBarePrefixes));
    std::string name = (is_bare ? "" : prefix_of(spec.id)) + std::string(own_name);
    const auto replace = [&](std::string_view part, std::string_view other) {
      if (other.empty() || !own_name.starts_with(part) || has(name)) return;
      name.replace(name.size() - own_name.size(), part.size(), other);
    };
    replace(kMlpPrefix, config_.type->other_mlp);
    if (role == TensorRole::kAttentionOutput) replace(own_name, config_.type->other_output);
    replace(own_name, other_folder_name(*config_.type, role));
    if (is_of_state(spec.id)) return take_state(spec, name);
    const bool is_index = role == TensorRole::kIndexHeadQuery || role == TensorRole::kIndexHeadKey;
    if (is_index && config_.type->has_ngrams) return take_index_rows(spec, name);
    if (kind == TensorKind::kExperts) return take_experts(spec, name);
    if (role == TensorRole::kMtpProjection && !config_.type->mtp->embedding_half.empty()) {
      return take_mtp_halves(spec);
    }
    if (kind == TensorKind::kNumbers) {
      TRY(take_whole(spec, name));
      make_int32(arranged_.back());
      return {};
    }
    if (kind == TensorKind::kHeads && spec.shape.size() == 3) {
      return own_name.empty() ? take_heads(spec) : stack(spec, name);
    }
    if (kind == TensorKind::kBias && spec.shape.size() == 2) return take_expert_biases(spec);
    if (spec.is_optional && !has(name) && !is_of_stated_mix(role)) return {};
    if (kind == TensorKind::kLoraFactor) {
      TRY_ASSIGN(const size_t index, find(name));
      return add(lora_factors(source_, index, spec, model_.layers[spec.id.layer].attention()));
    }
    if (config_.type->has_fused_gate_up && is_gate_or_up(role)) return take_half(spec, name);
    TRY(take_whole(spec, name));
    ArrangedTensor& tensor = arranged_.back();
    const bool is_qkv = role == TensorRole::kQkv || role == TensorRole::kQkvBias;
    if (is_qkv && config_.type->has_qkv_by_head) {
      separate_qkv(model_.layers[spec.id.layer].attention(), tensor);
    }
    if (role == TensorRole::kQkv && config_.type->has_switch_keys) {
      pair_query_rows(model_.layers[spec.id.layer].attention(), tensor);
    }
    if (kind == TensorKind::kMatrix && is_of_layer(role) && config_.type->has_transposed_matrices) {
      return transpose(name, tensor);
    }
    if (kind == TensorKind::kMatrix) return pair_rows(spec, tensor);
    if (kind == TensorKind::kHeads) return {};
    const bool lacks_one = kind == TensorKind::kNorm && config_.type->has_zero_centered_norms &&
                           role != TensorRole::kStateNorm &&
                           (config_.type->is_last_norm_centered || role != TensorRole::kOutputNorm);
    if (role == TensorRole::kPositions) leave_out_rows(config_.n_unused_positions, tensor);
    store_floats(tensor, kind == TensorKind::kDecay
                             ? arrangement_of_decay(model_.layers[spec.id.layer])
                         : lacks_one ? Arrangement::kFloatsPlusOne
                                     : Arrangement::kFloats);
    give_shape(spec, tensor.info);
    if (role == TensorRole::kQBias || role == TensorRole::kKBias) return pair_rows(spec, tensor);
    return {};
  }

  bool is_stated(TensorId tensor) const {
    return std::ranges::any_of(config_.vectors, [&](const ConfigVector& vector) {
      return TensorId{vector.role, vector.layer} == tensor;
    });
  }

  // Takes the tensor of exponents whose powers of e multiply the RoPE frequencies. Files have
  // divisors.
  Result<void> take_rope_exponents(const TensorSpec& spec) {
    TRY(take_whole(spec, prefix_ + std::string(own_name_of(spec.id))));
    store_floats(arranged_.back(), Arrangement::kReciprocalExp);
    return {};
  }

  Result<void> take_whole(const TensorSpec& spec, const std::string& name) {
    TRY_ASSIGN(const size_t index, find(name));
    ArrangedTensor tensor;
    tensor.info = source_.tensors()[index];
    tensor.info.name = name_of(spec.id);
    tensor.pieces = {{index, 0, tensor.info.n_bytes}};
    arranged_.push_back(std::move(tensor));
    return {};
  }

  // Returns whether the tensor belongs to a gated-delta-rule layer and is not a norm.
  bool is_of_state(TensorId tensor) const {
    if (!is_of_layer(tensor.role) ||
        !std::holds_alternative<DeltaConfig>(model_.layers[tensor.layer].mixer)) {
      return false;
    }
    return tensor.role == TensorRole::kQkv ||
           (tensor.role >= TensorRole::kOutputGate && tensor.role <= TensorRole::kStateOutput &&
            tensor.role != TensorRole::kStateNorm);
  }

  Result<void> take_state(const TensorSpec& spec, const std::string& name) {
    const auto& delta = std::get<DeltaConfig>(model_.layers[spec.id.layer].mixer);
    const std::string all = prefix_of(spec.id) + std::string(kQkvzName);
    const bool is_part =
        spec.id.role == TensorRole::kQkv || spec.id.role == TensorRole::kOutputGate;
    if (is_part && has(all)) {
      TRY_ASSIGN(const size_t index, find(all));
      return add(split_qkvz(source_, index, spec, delta));
    }
    TRY_ASSIGN(const size_t index, find(name));
    return add(state_tensor(source_, index, spec, delta));
  }

  // Pairs the rows of Q, K and their biases. Rows that RoPE rotates together are half a head apart
  // in folders, but adjacent in GGUF files of some families.
  Result<void> pair_rows(const TensorSpec& spec, ArrangedTensor& tensor) {
    using enum TensorRole;
    const TensorRole role = spec.id.role;
    const bool is_bias = role == kQBias || role == kKBias;
    const bool has_rope = is_bias || role == kQ || role == kK;
    if (config_.type->is_interleaved) return {};
    if (!has_rope || model_.ropes.front().pairing != RopePairing::kInterleaved) return {};
    const AttentionConfig& attention = model_.layers[spec.id.layer].attention();
    const uint64_t n_rows = tensor.info.shape.empty() ? 0 : tensor.info.shape.front();
    if (tensor.info.shape.size() != (is_bias ? 1 : 2) || n_rows % attention.head_dim != 0 ||
        attention.head_dim % 2 != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' has {} rows, expected {} and whole heads of an even {} "
                              "rows",
                              source_.tensors()[tensor.pieces.front().tensor].name, n_rows,
                              is_bias ? "one axis" : "two axes", attention.head_dim));
    }
    tensor.arrangement = is_bias ? Arrangement::kPairedFloats : Arrangement::kPairedRows;
    tensor.head_dim = attention.head_dim;
    return {};
  }

  // Takes the head. It is the embedding if there is no other tensor, or if the model ties them and
  // the file has a copy. A head that differs is used whatever config.json says (Transformers 5).
  Result<void> take_head(const TensorSpec& spec) {
    for (const std::string_view name : head_names_) {
      if (!has(std::string(name))) continue;
      if (config_.ties_embedding.value_or(true)) {
        TRY_ASSIGN(const bool is_copy, is_copy_of_embedding(std::string(name)));
        if (is_copy) continue;
      }
      return take_whole(spec, std::string(name));
    }
    if (config_.ties_embedding.value_or(true)) return {};
    return take_whole(spec, std::string(head_names_[0]));
  }

  // Makes the classifier of a reranker from rows of the output head.
  Result<void> take_score_rows(const TensorSpec& spec) {
    std::string name = embedding_name();
    for (const std::string_view head : head_names_) {
      if (has(std::string(head))) name = head;
    }
    TRY_ASSIGN(const size_t index, find(name));
    TRY_ASSIGN(ArrangedTensor tensor, selected_rows(source_, index, config_.score_tokens));
    tensor.info.name = name_of(spec.id);
    store_floats(tensor, Arrangement::kFloats);
    arranged_.push_back(std::move(tensor));
    return {};
  }
  std::string embedding_name() const {
    return prefix_ + std::string(folder_name(*config_.type, TensorRole::kEmbedding));
  }

  // Returns whether the tensor equals the embedding.
  Result<bool> is_copy_of_embedding(const std::string& name) {
    const auto embedding = by_name_.find(embedding_name());
    if (embedding == by_name_.end()) return true;  // the missing embedding is reported elsewhere
    return are_equal(source_, embedding->second, by_name_.at(name));
  }

  void add_vector(const ConfigVector& vector) {
    ArrangedTensor tensor;
    tensor.info = {.name = name_of(TensorId{vector.role, vector.layer}),
                   .type = ElementType::kF32,
                   .shape = {vector.values.size()},
                   .n_bytes = vector.values.size() * sizeof(float)};
    tensor.values = vector.values;
    arranged_.push_back(std::move(tensor));
  }

  // Takes the experts, which are either stacked with gate before up or separate tensors.
  Result<void> take_experts(const TensorSpec& spec, const std::string& name) {
    const std::string layer = prefix_of(spec.id);
    const std::string gates_and_ups = layer + std::string(config_.type->gate_up_stack);
    if (!has(gates_and_ups)) return stack(spec, name);
    if (spec.id.role == TensorRole::kExpertDown) {
      return take_whole(spec, layer + std::string(config_.type->down_stack));
    }
    if (!has_gate(model_.activation)) return take_whole(spec, gates_and_ups);
    if (const std::string_view up = config_.type->up_stack; !up.empty()) {
      return take_whole(
          spec, spec.id.role == TensorRole::kExpertUp ? layer + std::string(up) : gates_and_ups);
    }
    return take_half(spec, gates_and_ups);
  }

  Result<void> take_heads(const TensorSpec& spec) {
    const std::string name =
        prefix_of(spec.id) + std::string(own_name_of({TensorRole::kKvUp, spec.id.layer}));
    TRY_ASSIGN(const size_t index, find(name));
    return add(latent_up(source_, index, spec.id, model_.layers[spec.id.layer].attention()));
  }

  // Takes the biases of the experts. Those of gate precede those of up.
  Result<void> take_expert_biases(const TensorSpec& spec) {
    const bool is_down = spec.id.role == TensorRole::kExpertDownBias;
    const std::string name =
        prefix_of(spec.id) +
        std::string(is_down ? config_.type->down_bias_stack : config_.type->gate_up_bias_stack);
    TRY_ASSIGN(const size_t index, find(name));
    TRY_ASSIGN(ArrangedTensor tensor, expert_biases(source_, index, spec));
    store_floats(tensor, Arrangement::kFloats);
    arranged_.push_back(std::move(tensor));
    return {};
  }

  // Stacks the tensors of the experts to [n_experts, n_rows, n_cols].
  Result<void> stack(const TensorSpec& spec, const std::string& pattern) {
    std::vector<size_t> matrices;
    for (uint64_t expert = 0; expert < spec.shape.front(); ++expert) {
      TRY_ASSIGN(const size_t index, find(fmt::format(fmt::runtime(pattern), expert)));
      matrices.push_back(index);
    }
    auto tensor = stack_of(source_, name_of(spec.id), matrices);
    if (!tensor) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' differs in type or shape from that of the first "
                              "expert, expected matrices that are alike",
                              source_.tensors()[matrices[tensor.error()]].name));
    }
    arranged_.push_back(*std::move(tensor));
    return {};
  }

  // Takes the gate or up half of [n_experts, 2 · n_rows, n_cols], or of one such matrix.
  Result<void> take_half(const TensorSpec& spec, const std::string& name) {
    TRY_ASSIGN(const size_t index, find(name));
    return add(gate_or_up_half(source_, index, spec));
  }

  Result<void> take_mtp_halves(const TensorSpec& spec) {
    const MtpNames& names = *config_.type->mtp;
    const std::string prefix = mtp_prefix_of(spec.id);
    TRY_ASSIGN(const size_t left, find(prefix + std::string(names.embedding_half)));
    TRY_ASSIGN(const size_t right, find(prefix + std::string(names.hidden_half)));
    return add(columns_of_both(source_, left, right, spec));
  }

  // Takes the rows of an indexer's queries or of its key from their common tensor.
  Result<void> take_index_rows(const TensorSpec& spec, const std::string& name) {
    const IndexerConfig& indexer = model_.layers[spec.id.layer].attention().indexer;
    const uint64_t n_queries = uint64_t{indexer.n_heads} * indexer.head_dim;
    TRY_ASSIGN(const size_t index, find(name));
    return add(rows_of_tensor(
        source_, index, spec,
        {spec.id.role == TensorRole::kIndexHeadKey ? n_queries : 0, n_queries + indexer.head_dim}));
  }

  // Joins the pieces of the table of n-grams, and checks that the folder's numbers are those of
  // config.json.
  Result<void> take_ngrams(const TensorSpec& spec) {
    const NgramNames names(
        fmt::format("{}{}{}.", prefix_, config_.type->layers, model_.ngrams->layer));
    std::vector<size_t> shards;
    do {
      TRY_ASSIGN(const size_t index, find(names.shard(shards.size())));
      shards.push_back(index);
    } while (has(names.shard(shards.size())));
    for (const auto& [name, numbers] : names.numbers(*model_.ngrams)) {
      if (!has(name)) continue;
      TRY_ASSIGN(const size_t index, find(name));
      TRY(check_numbers(source_, index, numbers));
    }
    return add(joined_rows(source_, shards, spec));
  }

  // Returns whether a tensor is K or V of a layer that shares another layer's.
  bool is_unused(std::string_view name) const {
    for (uint32_t layer = 0; layer < model_.n_layers; ++layer) {
      if (!kv_source_of(model_.layers[layer])) continue;
      for (const TensorRole role : {TensorRole::kK, TensorRole::kV, TensorRole::kKNorm}) {
        if (name == prefix_of({role, layer}) + std::string(folder_name(*config_.type, role))) {
          return true;
        }
      }
    }
    return false;
  }

  bool is_harmless(std::string_view name) const {
    const bool is_head = std::ranges::count(head_names_, name) > 0;
    if (config_.type->is_encoder && is_of_other_task(name)) return true;
    return name.ends_with(".rotary_emb.inv_freq") || is_of_unused_head(name) ||
           name.starts_with(prefix_ + std::string(kMtpPrefix)) ||
           is_of_layers(name, prefix_ + "layers.", model_.n_layers,
                        model_.n_mtp_layers + config_.n_left_out_layers) ||
           is_unused(name) || (model_.activation == Activation::kXielu && is_of_xielu(name)) ||
           (is_head && config_.ties_embedding.value_or(true)) ||
           (prefix_ != "model." && is_multimodal_tensor(name)) ||
           (config_.type->has_step_keys && is_multimodal_tensor_of_step(name));
  }

  Result<void> check_all_taken() const {
    for (size_t i = 0; i < taken_.size(); ++i) {
      const std::string& name = source_.tensors()[i].name;
      if (taken_[i] || is_harmless(name) || is_mask(source_.tensors()[i])) continue;
      return fail(
          ErrorCode::kUnsupported,
          fmt::format("tensor {} is not supported in a model of type {} with {}", quoted(name),
                      config_.type->model_type, counted(model_.n_layers, "layer")));
    }
    return {};
  }

  ModelSource& source_;
  const FolderConfig& config_;
  ModelConfig model_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<bool> taken_;
  std::vector<std::string_view> head_names_;
  std::string prefix_ = "model.";
  std::vector<ArrangedTensor> arranged_;
  bool is_incomplete_ = false;
};

}  // namespace

Result<void> arrange_folder(ModelSource& source, std::string label, FolderConfig config) {
  if (find_family(config.architecture)->activation == Activation::kXielu) {
    TRY(read_xielu(source, config.architecture, config.metadata));
  }
  TRY_ASSIGN(const ModelConfig model, read_with_mtp_layer(source, config));
  if (config.block_floats) TRY(join_block_floats(source, *config.block_floats));
  if (config.quantization) {
    TRY(group_tensors(source, *config.quantization, bias_names(*config.type, model)));
  }
  const ExpertsConfig* experts = model.experts();
  const bool is_usual = config.type->stacks == ExpertStacks::kUsual ||
                        (config.type->stacks == ExpertStacks::kTransposed && experts &&
                         !are_experts_transposed(source, {model.model_dim, experts->ffn_dim}));
  if (!is_usual) TRY(convert_experts(source, config.type->stacks));
  FolderTensors tensors(source, config, model);
  auto arranged = tensors.arrange();
  if (tensors.is_incomplete() && model.has_mtp_head) {  // an incomplete MTP head is ignored
    arranged = FolderTensors(source, config, without_mtp_head(model)).arrange();
  }
  if (!arranged) return std::unexpected(arranged.error());
  kvik::arrange(source, *std::move(arranged));
  source.describe(std::move(label), std::move(config.metadata));
  return {};
}

}  // namespace kvik::hf
