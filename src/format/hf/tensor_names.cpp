#include "format/hf/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "format/arranged_source.h"
#include "format/hf/grouped_source.h"
#include "format/quoted.h"
#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

// Where the tensors of text stand in models that do more.
constexpr std::string_view kPrefixes[] = {"language_model.model.", "model.language_model."};
constexpr std::string_view kOtherSenses[] = {"vision_tower.", "multi_modal_projector.",
                                             "model.vision_tower.", "model.multi_modal_projector."};
constexpr std::string_view kHeadNames[] = {"lm_head.weight", "language_model.lm_head.weight"};

bool sees_or_hears(std::string_view name) {
  return std::ranges::any_of(kOtherSenses,
                             [&](std::string_view sense) { return name.starts_with(sense); });
}

// The tensors of a folder on their way into a GGUF file's names. Lives for one arrangement.
class FolderTensors {
 public:
  FolderTensors(const ModelSource& source, const FolderConfig& config)
      : source_(source), config_(config), family_(*config.family), taken_(source.tensors().size()) {
    for (size_t i = 0; i < taken_.size(); ++i) by_name_.emplace(source.tensors()[i].name, i);
    for (const std::string_view prefix : kPrefixes) {
      if (by_name_.contains(std::string(prefix) + "embed_tokens.weight")) prefix_ = prefix;
    }
  }

  Result<std::vector<ArrangedTensor>> arrange() {
    TRY(take(prefix_ + "embed_tokens.weight", "token_embd.weight"));
    TRY(take_norm(prefix_ + "norm.weight", "output_norm.weight"));
    TRY(take_head());
    for (const StatedVector& vector : config_.vectors) add_vector(vector);
    for (uint32_t i = 0; i < config_.n_layers; ++i) {
      from_ = fmt::format("{}layers.{}.", prefix_, i);
      to_ = fmt::format("blk.{}.", i);
      TRY(take_norms());
      TRY(take_attention());
      TRY(family_.experts == ExpertNames::kNone ? take_mlp() : take_experts());
    }
    TRY(check_all_taken());
    return std::move(arranged_);
  }

 private:
  Result<size_t> find(const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      return fail(ErrorCode::kCorrupt, fmt::format("tensor '{}' is missing", name));
    }
    taken_[found->second] = true;
    return found->second;
  }
  bool has(const std::string& name) const { return by_name_.contains(name); }

  ArrangedTensor whole(size_t index, std::string name) const {
    ArrangedTensor tensor;
    tensor.info = source_.tensors()[index];
    tensor.info.name = std::move(name);
    tensor.pieces = {{index, 0, tensor.info.n_bytes}};
    return tensor;
  }

  Result<void> take(const std::string& name, std::string to) {
    TRY_ASSIGN(const size_t index, find(name));
    arranged_.push_back(whole(index, std::move(to)));
    return {};
  }

  // One of the few tensors that GGUF files always hold as f32.
  Result<void> take_floats(const std::string& name, std::string to,
                           Arrangement arrangement = Arrangement::kFloats) {
    TRY_ASSIGN(const size_t index, find(name));
    ArrangedTensor tensor = whole(index, std::move(to));
    const bool is_float = tensor.info.type == ElementType::kF32;
    // What cannot become f32 is refused when it is loaded.
    if (traits(tensor.info.type).block_elements == 1 && can_dequantize(tensor.info.type)) {
      if (!is_float || arrangement != Arrangement::kFloats) tensor.arrangement = arrangement;
      tensor.info.type = ElementType::kF32;
      tensor.info.n_bytes = tensor.info.n_elements() * sizeof(float);
    }
    arranged_.push_back(std::move(tensor));
    return {};
  }

  Result<void> take_norm(const std::string& name, std::string to) {
    return take_floats(name, std::move(to),
                       family_.norms_lack_one ? Arrangement::kFloatsPlusOne : Arrangement::kFloats);
  }

  // Queries or keys.
  Result<void> take_heads(const std::string& name, std::string to) {
    TRY(take(name, std::move(to)));
    if (!family_.pairs_rows) return {};
    ArrangedTensor& tensor = arranged_.back();
    const uint64_t n_rows = tensor.info.shape.front();
    if (tensor.info.shape.size() != 2 || n_rows % config_.head_dim != 0 ||
        config_.head_dim % 2 != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' has {} rows, expected two axes and whole heads of an "
                              "even {} rows",
                              name, n_rows, config_.head_dim));
    }
    tensor.arrangement = Arrangement::kPairedRows;
    tensor.head_dim = config_.head_dim;
    return {};
  }

  // The embedding serves as the head where the model ties them, or where there is no other.
  Result<void> take_head() {
    for (const std::string_view name : kHeadNames) {
      if (config_.ties_embedding.value_or(true) || !has(std::string(name))) continue;
      return take(std::string(name), "output.weight");
    }
    if (config_.ties_embedding.value_or(true)) return {};
    return take(std::string(kHeadNames[0]), "output.weight");
  }

  void add_vector(const StatedVector& vector) {
    ArrangedTensor tensor;
    tensor.info = {.name = vector.name,
                   .type = ElementType::kF32,
                   .shape = {vector.values.size()},
                   .n_bytes = vector.values.size() * sizeof(float)};
    tensor.values = vector.values;
    arranged_.push_back(std::move(tensor));
  }

  Result<void> take_norms() {
    const std::string behind_attention = from_ + "post_attention_layernorm.weight";
    if (family_.norms == Norms::kBefore) {
      TRY(take_norm(from_ + "input_layernorm.weight", to_ + "attn_norm.weight"));
      return take_norm(behind_attention, to_ + "ffn_norm.weight");
    }
    if (family_.norms == Norms::kBoth) {
      TRY(take_norm(from_ + "input_layernorm.weight", to_ + "attn_norm.weight"));
      TRY(take_norm(from_ + "pre_feedforward_layernorm.weight", to_ + "ffn_norm.weight"));
    }
    TRY(take_norm(behind_attention, to_ + "post_attention_norm.weight"));
    return take_norm(from_ + "post_feedforward_layernorm.weight", to_ + "post_ffw_norm.weight");
  }

  Result<void> take_attention() {
    const std::string from = from_ + "self_attn.";
    if (family_.is_fused) {
      TRY(take(from + "qkv_proj.weight", to_ + "attn_qkv.weight"));
    } else {
      TRY(take_heads(from + "q_proj.weight", to_ + "attn_q.weight"));
      TRY(take_heads(from + "k_proj.weight", to_ + "attn_k.weight"));
      TRY(take(from + "v_proj.weight", to_ + "attn_v.weight"));
    }
    TRY(take(from + "o_proj.weight", to_ + "attn_output.weight"));
    if (family_.has_qkv_bias) {
      for (const char* part : {"q", "k", "v"}) {
        TRY(take_floats(fmt::format("{}{}_proj.bias", from, part),
                        fmt::format("{}attn_{}.bias", to_, part)));
      }
    }
    if (!family_.has_qk_norm) return {};
    TRY(take_norm(from + "q_norm.weight", to_ + "attn_q_norm.weight"));
    return take_norm(from + "k_norm.weight", to_ + "attn_k_norm.weight");
  }

  Result<void> take_mlp() {
    const std::string from = from_ + "mlp.";
    if (family_.is_fused) {
      TRY(take(from + "gate_up_proj.weight", to_ + "ffn_up.weight"));
    } else {
      TRY(take(from + "gate_proj.weight", to_ + "ffn_gate.weight"));
      TRY(take(from + "up_proj.weight", to_ + "ffn_up.weight"));
    }
    return take(from + "down_proj.weight", to_ + "ffn_down.weight");
  }

  Result<void> take_experts() {
    const bool is_w123 = family_.experts == ExpertNames::kW123;
    const std::string from = from_ + (is_w123 ? "block_sparse_moe." : "mlp.");
    TRY(take_floats(from + "gate.weight", to_ + "ffn_gate_inp.weight"));
    if (has(from + "experts.gate_up_proj")) {
      TRY(take_halves(from + "experts.gate_up_proj", to_));
      TRY(take(from + "experts.down_proj", to_ + "ffn_down_exps.weight"));
    } else {
      TRY(stack(from, is_w123 ? "w1" : "gate_proj", to_ + "ffn_gate_exps.weight"));
      TRY(stack(from, is_w123 ? "w3" : "up_proj", to_ + "ffn_up_exps.weight"));
      TRY(stack(from, is_w123 ? "w2" : "down_proj", to_ + "ffn_down_exps.weight"));
    }
    return config_.has_shared_expert ? take_shared_expert(from) : Result<void>();
  }

  Result<void> take_shared_expert(const std::string& from) {
    TRY(take_floats(from + "shared_expert_gate.weight", to_ + "ffn_gate_inp_shexp.weight"));
    TensorInfo& gate = arranged_.back().info;
    if (gate.shape.size() == 2 && gate.shape[0] == 1) gate.shape.erase(gate.shape.begin());
    for (const char* part : {"gate", "up", "down"}) {
      TRY(take(fmt::format("{}shared_expert.{}_proj.weight", from, part),
               fmt::format("{}ffn_{}_shexp.weight", to_, part)));
    }
    return {};
  }

  // A tensor of each expert → [n_experts, n_rows, n_cols].
  Result<void> stack(const std::string& from, std::string_view part, std::string to) {
    ArrangedTensor tensor;
    for (uint32_t expert = 0; expert < config_.n_experts; ++expert) {
      const std::string name = fmt::format("{}experts.{}.{}.weight", from, expert, part);
      TRY_ASSIGN(const size_t index, find(name));
      const TensorInfo& info = source_.tensors()[index];
      if (expert == 0) tensor.info = info;
      if (info.type != tensor.info.type || info.shape != tensor.info.shape ||
          info.shape.size() != 2) {
        return fail(ErrorCode::kCorrupt,
                    fmt::format("tensor '{}' differs in type or shape from that of the first "
                                "expert, expected matrices that are alike",
                                name));
      }
      tensor.pieces.push_back({index, 0, info.n_bytes});
    }
    tensor.info.name = std::move(to);
    tensor.info.shape.insert(tensor.info.shape.begin(), config_.n_experts);
    tensor.info.n_bytes *= config_.n_experts;
    arranged_.push_back(std::move(tensor));
    return {};
  }

  // [n_experts, 2 · n_rows, n_cols] → gate and up.
  Result<void> take_halves(const std::string& name, const std::string& to) {
    TRY_ASSIGN(const size_t index, find(name));
    const TensorInfo& info = source_.tensors()[index];
    if (info.shape.size() != 3 || info.shape[0] != config_.n_experts || info.shape[1] % 2 != 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("tensor '{}' has no shape of {} experts with gate and up", name,
                              config_.n_experts));
    }
    const uint64_t half_bytes = info.n_bytes / config_.n_experts / 2;
    for (const uint64_t half : {0, 1}) {
      ArrangedTensor tensor;
      tensor.info = info;
      tensor.info.name = to + (half == 0 ? "ffn_gate_exps.weight" : "ffn_up_exps.weight");
      tensor.info.shape[1] /= 2;
      tensor.info.n_bytes /= 2;
      for (uint64_t expert = 0; expert < config_.n_experts; ++expert) {
        tensor.pieces.push_back({index, (2 * expert + half) * half_bytes, half_bytes});
      }
      arranged_.push_back(std::move(tensor));
    }
    return {};
  }

  bool is_harmless(std::string_view name) const {
    const bool is_head = std::ranges::count(kHeadNames, name) > 0;
    return name.ends_with(".rotary_emb.inv_freq") ||
           (is_head && config_.ties_embedding.value_or(true)) ||
           (prefix_ != "model." && sees_or_hears(name));
  }

  Result<void> check_all_taken() const {
    for (size_t i = 0; i < taken_.size(); ++i) {
      const std::string& name = source_.tensors()[i].name;
      if (taken_[i] || is_harmless(name)) continue;
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not part of a model of type {} with {} layers as it is "
                              "known here",
                              quoted(name), family_.model_type, config_.n_layers));
    }
    return {};
  }

  const ModelSource& source_;
  const FolderConfig& config_;
  const Family& family_;
  std::unordered_map<std::string_view, size_t> by_name_;
  std::vector<bool> taken_;
  std::string prefix_ = "model.";
  std::string from_, to_;  // beginnings of the names of a layer's tensors
  std::vector<ArrangedTensor> arranged_;
};

}  // namespace

Result<std::unique_ptr<ModelSource>> arrange_folder(std::unique_ptr<ModelSource> tensors,
                                                    std::string label, FolderConfig config) {
  if (config.quantization) {
    TRY_ASSIGN(tensors, group_tensors(std::move(tensors), *config.quantization, *config.family));
  }
  TRY_ASSIGN(auto arranged, FolderTensors(*tensors, config).arrange());
  return kvik::arrange(std::move(tensors), std::move(label), std::move(config.metadata),
                       std::move(arranged));
}

}  // namespace kvik::hf
