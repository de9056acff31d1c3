#include "format/adapter/peft_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/family.h"
#include "format/adapter/pair_plan.h"
#include "format/hf/names/ignored_names.h"
#include "format/hf/state_tensors.h"
#include "format/quoted.h"

namespace kvik {
namespace {

constexpr std::string_view kWrapper = "base_model.model.";
constexpr std::string_view kWrapped = ".base_layer";  // module wrapped by the pair of a parameter
constexpr std::string_view kCopy = ".base_layer.weight";
// Prefixes of the modules of the text model.
constexpr std::string_view kPrefixes[] = {"model.", "language_model.model.", "gpt_neox.",
                                          "model.language_model.", "backbone."};
constexpr std::string_view kHeads[] = {"lm_head", "language_model.lm_head", "model.lm_head"};

struct Suffix {
  std::string_view text;
  int place;  // 0: a, 1: b, 2: magnitudes
};
constexpr int kMagnitudes = 2;
constexpr Suffix kSuffixes[] = {{".lora_A.weight", 0},
                                {".lora_B.weight", 1},
                                {".lora_embedding_A", 0},
                                {".lora_embedding_B", 1},
                                {".lora_magnitude_vector", kMagnitudes},
                                {".lora_magnitude_vector.weight", kMagnitudes}};

// A parameter of a module with the matrices of all experts of a layer.
struct StackParameter {
  std::string name;  // "gate_up_proj"
  std::vector<TensorId> tensors;
  ExpertStacks stacks = ExpertStacks::kUsual;
};

// Splits "mlp.experts.gate_up_proj" into "mlp.experts" and "gate_up_proj".
std::pair<std::string_view, std::string_view> split_at_last_dot(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {{}, name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// Maps the names that folders have for modules to tensors of a model.
class Modules {
 public:
  Modules(const ModelConfig& model, const TensorTable& table)
      : family_(find_family(model.architecture)), by_layer_(model.n_layers) {
    for (const TensorSpec& spec : table.all()) {
      if (!is_of_layer(spec.id.role)) {
        of_model_.push_back(spec.id.role);
      } else if (spec.id.layer < model.n_layers) {  // the MTP head is not changed
        by_layer_[spec.id.layer].push_back(spec.id.role);
      }
    }
    for (uint32_t layer = 0; layer < model.n_layers; ++layer) {
      for (const TensorRole unused : {TensorRole::kK, TensorRole::kV}) {
        if (table.may_be_unused(name_of({unused, layer}))) by_layer_[layer].push_back(unused);
      }
    }
  }

  // Returns whether rows that RoPE rotates together are half a head apart in the folder, although
  // they may be adjacent in a GGUF file.
  bool pairs_rows() const {
    return !family_ || family_->folders.empty() || !family_->folders.front().is_interleaved;
  }

  bool has_qkv_by_head() const {
    return family_ && !family_->folders.empty() && family_->folders.front().has_qkv_by_head;
  }

  // Returns all tensors of the module; none if the model has no such module.
  std::vector<AdapterTarget> find(std::string_view module) const {
    if (std::ranges::count(kHeads, module) > 0) return {{.tensor = {TensorRole::kHead}}};
    for (const std::string_view prefix : kPrefixes) {
      if (!module.starts_with(prefix)) continue;
      const auto found = find_in_model(module.substr(prefix.size()));
      if (!found.empty()) return found;
    }
    return {};
  }

  // Returns the stacked parameters of the module in the order of their definition; none if it has
  // none.
  std::vector<StackParameter> find_stacks(std::string_view module) const {
    for (const std::string_view prefix : kPrefixes) {
      if (!module.starts_with(prefix)) continue;
      const auto place = place_of(module.substr(prefix.size()));
      if (!place || !family_) continue;
      for (const FolderType& type : family_->folders) {
        auto found = stacks_in(*place, type);
        for (StackParameter& parameter : found) parameter.stacks = type.stacks;
        if (!found.empty()) return found;
      }
      return stacks_in(*place, FolderType{});  // the names of most models in Transformers 5
    }
    return {};
  }

 private:
  struct Place {
    uint32_t layer;
    std::string_view module;  // name after the layer's number and a dot
  };

  std::optional<Place> place_of(std::string_view module) const {
    constexpr std::string_view kLayers = "layers.";
    if (!module.starts_with(kLayers)) return std::nullopt;
    module.remove_prefix(kLayers.size());
    const auto layer = take_number(module);
    if (!layer || *layer >= by_layer_.size() || !module.starts_with('.')) return std::nullopt;
    return Place{*layer, module.substr(1)};
  }

  std::vector<StackParameter> stacks_in(const Place& place, const FolderType& type) const {
    using enum TensorRole;
    std::vector<StackParameter> found;
    for (const std::string_view stack : {type.gate_up_stack, type.down_stack}) {
      const auto [module, name] = split_at_last_dot(stack);
      if (module != place.module) continue;
      StackParameter parameter{.name = std::string(name), .tensors = {}};
      for (const TensorRole role : {kExpertGate, kExpertUp, kExpertDown}) {
        const bool is_down = stack == type.down_stack;
        if (is_down != (role == kExpertDown)) continue;
        if (std::ranges::count(by_layer_[place.layer], role) == 0) continue;
        parameter.tensors.push_back({role, place.layer});
      }
      if (!parameter.tensors.empty()) found.push_back(std::move(parameter));
    }
    return found;
  }

  std::vector<AdapterTarget> find_in_model(std::string_view module) const {
    if (module == "embed_tokens") return {{.tensor = {TensorRole::kEmbedding}}};
    for (const TensorRole role : of_model_) {
      if (role == TensorRole::kHead) continue;
      if (is_called(role, fmt::format("{}.weight", module))) return {{.tensor = {role}}};
    }
    const auto place = place_of(module);
    return place ? find_in_layer(place->layer, place->module) : std::vector<AdapterTarget>();
  }

  // "mlp.experts.3.up_proj" is part 3 of "mlp.experts.{}.up_proj.weight".
  std::vector<AdapterTarget> find_in_layer(uint32_t layer, std::string_view module) const {
    std::string pattern;
    std::optional<uint32_t> part;
    for (std::string_view rest = module; !rest.empty();) {
      const size_t end = std::min(rest.find('.'), rest.size());
      std::string_view word = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      std::string_view number = word;
      const auto value = take_number(number);
      if (value && number.empty() && !part) {
        part = value;
        word = "{}";
      }
      pattern += fmt::format("{}{}", pattern.empty() ? "" : ".", word);
    }
    pattern += ".weight";
    std::vector<AdapterTarget> found;
    for (const TensorRole role : by_layer_[layer]) {
      // Folders store the stacks of heads as one matrix.
      const TensorRole there = role == TensorRole::kKUp ? TensorRole::kKvUp : role;
      const bool is_stack = kind_of(there) == TensorKind::kExperts;
      const bool is_of_qkvz = pattern == hf::kQkvzName &&
                              (there == TensorRole::kQkv || there == TensorRole::kOutputGate);
      if (is_stack != part.has_value() || (!is_of_qkvz && !is_called(there, pattern))) continue;
      found.push_back({.tensor = {there, layer}, .part = part});
    }
    return found;
  }

  bool is_called(TensorRole role, std::string_view name) const {
    const auto kind = kind_of(role);
    if (kind == TensorKind::kNorm || kind == TensorKind::kBias) return false;
    return family_ ? is_folder_name(*family_, role, name) : usual_folder_name(role) == name;
  }

  static std::optional<uint32_t> take_number(std::string_view& text) {
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
  }

  const Family* family_;
  std::vector<std::vector<TensorRole>> by_layer_;
  std::vector<TensorRole> of_model_;
};

struct ModuleTensors {
  std::optional<size_t> places[3];  // by Suffix::place
  bool is_embedding = false;
};

// Returns whether the tensor is the copy of the base model's embedding or head that PEFT saves with
// their pair. The copy is frozen, so that the base model's own weights are used. Errors:
// kUnsupported for a copy of another shape, which belongs to a base model with another vocabulary.
Result<bool> is_copy_of_base(const TensorInfo& info, const Modules& modules,
                             const ModelConfig& model) {
  const std::string_view name = info.name;
  if (!name.starts_with(kWrapper) || !name.ends_with(kCopy)) return false;
  const auto targets =
      modules.find(name.substr(kWrapper.size(), name.size() - kWrapper.size() - kCopy.size()));
  const bool is_of_tokens = !targets.empty() && (targets[0].tensor.role == TensorRole::kEmbedding ||
                                                 targets[0].tensor.role == TensorRole::kHead);
  if (!is_of_tokens) return false;
  if (info.shape == std::vector<uint64_t>{model.n_vocab, model.model_dim}) return true;
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("tensor {} has the shape [{}], expected the [{}, {}] of the base: the "
                  "adapter was made for a base with another vocabulary",
                  quoted(name), fmt::join(info.shape, ", "), model.n_vocab, model.model_dim));
}

// Returns embedding or head if the tensor is one that PEFT saves whole.
std::optional<TensorId> saved_target(std::string_view name, const Modules& modules,
                                     const PeftConfig& config) {
  constexpr std::string_view kWeight = ".weight";
  if (!name.starts_with(kWrapper) || !name.ends_with(kWeight)) return std::nullopt;
  name = name.substr(kWrapper.size(), name.size() - kWrapper.size() - kWeight.size());
  const auto is_saved = [&](std::string_view saved) {
    return name == saved || name.ends_with(fmt::format(".{}", saved));
  };
  if (std::ranges::none_of(config.saved_modules, is_saved)) return std::nullopt;
  const auto targets = modules.find(name);
  if (targets.empty()) return std::nullopt;
  const TensorId tensor = targets.front().tensor;
  const bool is_of_tokens =
      tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead;
  return is_of_tokens ? std::optional(tensor) : std::nullopt;
}

// Adds the tensors that are saved whole to the plan; returns the others.
Result<std::map<std::string_view, ModuleTensors>> find_modules(const ModelSource& file,
                                                               const Modules& modules,
                                                               const ModelConfig& model,
                                                               const PeftConfig& config,
                                                               PairPlan& plan) {
  size_t n_saved = 0;
  std::map<std::string_view, ModuleTensors> pairs;
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const std::string_view name = file.tensors()[i].name;
    TRY_ASSIGN(const bool is_copy, is_copy_of_base(file.tensors()[i], modules, model));
    if (is_copy) continue;
    if (const auto target = saved_target(name, modules, config)) {
      TRY(plan.add_saved(*target, i));
      ++n_saved;
      continue;
    }
    const auto* suffix = std::ranges::find_if(
        kSuffixes, [&](const Suffix& candidate) { return name.ends_with(candidate.text); });
    if (suffix == std::end(kSuffixes) || !name.starts_with(kWrapper) ||
        name.size() <= kWrapper.size() + suffix->text.size()) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not of a pair, expected names such as '{}MODULE{}'",
                              quoted(name), kWrapper, kSuffixes[0].text));
    }
    const std::string_view module =
        name.substr(kWrapper.size(), name.size() - kWrapper.size() - suffix->text.size());
    ModuleTensors& pair = pairs[module];
    const int place = suffix->place;
    const bool is_embedding = suffix->text.starts_with(".lora_embedding");
    const bool has_other = place != kMagnitudes && pair.places[1 - place];
    if (pair.places[place] || (has_other && pair.is_embedding != is_embedding)) {
      return fail(ErrorCode::kCorrupt, fmt::format("module {} has a matrix and an embedding, "
                                                   "expected one of them",
                                                   quoted(module)));
    }
    pair.places[place] = i;
    if (place != kMagnitudes) pair.is_embedding = is_embedding;
  }
  if (n_saved < config.saved_modules.size()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'modules_to_save' of adapter_config.json names {} modules, but there "
                            "are {} tensors of them",
                            config.saved_modules.size(), n_saved));
  }
  return pairs;
}

struct FileModule {
  std::string name;  // name that patterns refer to
  std::vector<FilePair> pairs;
};

std::unexpected<Error> is_none(std::string_view module, const ModelConfig& model) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("module {} does not exist in a model of architecture '{}' with {} "
                          "{}: the adapter was made for another model",
                          quoted(module), model.architecture, model.n_layers,
                          model.n_layers == 1 ? "layer" : "layers"));
}

// Returns the targets of a module with n_wrapped suffixes ".base_layer". PEFT wraps a module once
// per target parameter, in the order of their definition, so a name without the suffix belongs to
// the last of them, and each suffix leads to the one before.
Result<FileModule> stated_stack(std::string_view module, size_t n_wrapped,
                                std::vector<StackParameter> parameters, const PeftConfig& config) {
  const auto path_of = [&](const StackParameter& parameter) {
    return fmt::format("{}.{}", module, parameter.name);
  };
  std::erase_if(parameters, [&](const StackParameter& parameter) {
    return !config.has_parameter(path_of(parameter));
  });
  if (n_wrapped >= parameters.size()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("module {} has pairs of {} parameters or more, but the "
                            "'target_parameters' of adapter_config.json name {} of them",
                            quoted(module), n_wrapped + 1, parameters.size()));
  }
  const StackParameter& parameter = parameters[parameters.size() - 1 - n_wrapped];
  FileModule out{.name = path_of(parameter), .pairs = {}};
  for (uint32_t part = 0; part < parameter.tensors.size(); ++part) {
    out.pairs.push_back(
        {.name = out.name,
         .target = {.tensor = parameter.tensors[part]},
         .flat = FlatStack{.part = part,
                           .n_parts = static_cast<uint32_t>(parameter.tensors.size()),
                           .is_alternating = parameter.stacks == ExpertStacks::kInterleaved,
                           .is_flipped = config.flips_stacks(parameter.stacks)}});
  }
  return out;
}

// Returns the targets of a module.
Result<FileModule> stated_matrix(std::string_view module, const ModuleTensors& tensors,
                                 const Modules& modules, const ModelConfig& model) {
  const std::vector<AdapterTarget> targets = modules.find(module);
  const bool is_embedding =
      !targets.empty() && targets.front().tensor.role == TensorRole::kEmbedding;
  if (targets.empty() || is_embedding != tensors.is_embedding) return is_none(module, model);
  Module there{.roles = {},
               .pairs_rows = modules.pairs_rows(),
               .has_qkv_by_head = modules.has_qkv_by_head()};
  for (const AdapterTarget& target : targets) there.roles.push_back(target.tensor.role);
  FileModule out{.name = std::string(module), .pairs = {}};
  for (const AdapterTarget& target : targets) {
    out.pairs.push_back({.name = out.name, .target = target, .module = there});
  }
  return out;
}

Result<FileModule> stated(std::string_view module, const ModuleTensors& tensors,
                          const Modules& modules, const PeftConfig& config,
                          const ModelConfig& model) {
  for (const int half : {0, 1}) {
    if (tensors.places[half]) continue;
    return fail(ErrorCode::kCorrupt, fmt::format("module {} lacks its lora_{}, expected a pair",
                                                 quoted(module), half == 0 ? 'A' : 'B'));
  }
  if (tensors.places[kMagnitudes].has_value() != config.has_magnitudes) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("module {} has {}, but 'use_dora' of adapter_config.json is {}", quoted(module),
                    config.has_magnitudes ? "no lora_magnitude_vector" : "a lora_magnitude_vector",
                    config.has_magnitudes));
  }
  std::string_view unwrapped = module;
  size_t n_wrapped = 0;
  for (; unwrapped.ends_with(kWrapped); ++n_wrapped) unwrapped.remove_suffix(kWrapped.size());
  auto stacks = modules.find_stacks(unwrapped);
  const bool is_stack = !stacks.empty();
  if (is_stack && tensors.is_embedding) return is_none(module, model);
  auto found = is_stack ? stated_stack(unwrapped, n_wrapped, std::move(stacks), config)
                        : stated_matrix(module, tensors, modules, model);
  if (!found) return found;
  for (FilePair& pair : found->pairs) {
    pair.a = *tensors.places[0];
    pair.b = *tensors.places[1];
    pair.magnitudes = tensors.places[kMagnitudes];
  }
  const std::string parameter = fmt::format("{}.weight", module);
  if (!is_stack && config.has_parameter(parameter)) found->name = parameter;
  return found;
}

}  // namespace

Result<std::unique_ptr<AdapterSource>> read_peft_adapter(const PeftConfig& config,
                                                         std::unique_ptr<ModelSource> file,
                                                         std::string label,
                                                         const ModelConfig& model, float factor) {
  PairPlan plan(*file, model);
  const Modules modules(model, plan.table());
  TRY_ASSIGN(const auto pairs, find_modules(*file, modules, model, config, plan));
  for (const auto& [module, tensors] : pairs) {
    if (hf::is_multimodal_tensor(module)) continue;  // vision and audio parts are not loaded
    TRY_ASSIGN(const auto changed, stated(module, tensors, modules, config, model));
    TRY_ASSIGN(const uint32_t rank, plan.rank_of(changed.pairs.front()));
    TRY_ASSIGN(const uint32_t said, config.rank_of(changed.name));
    if (rank != said) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("module {} has the rank {}, but adapter_config.json says {}",
                              quoted(module), rank, said));
    }
    TRY_ASSIGN(const float scale, config.scale_of(changed.name));
    for (const FilePair& pair : changed.pairs) TRY(plan.add(pair, rank, scale * factor));
  }
  return plan.finish(std::move(file), std::move(label), config.base_name);
}

}  // namespace kvik
