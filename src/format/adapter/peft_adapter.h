#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalogue/family.h"
#include "format/adapter/adapter_source.h"
#include "format/adapter/name_pattern.h"
#include "format/model_source.h"

namespace kvik {

// Contents of an adapter_config.json: scales and kind of the update. The updated modules and layers
// follow from the tensors.
struct PeftConfig {
  template <class T>
  struct OfModules {
    NamePattern names;
    T value;
  };

  uint32_t rank = 0;
  double alpha = 0;
  // Exceptions from rank and alpha. The first entry that matches a module applies.
  std::vector<OfModules<uint32_t>> ranks = {};
  std::vector<OfModules<double>> alphas = {};
  bool has_root_scale = false;                  // alpha / √rank (Kalajdzievski 2023)
  bool has_magnitudes = false;                  // "use_dora"
  std::vector<std::string> parameters = {};     // "target_parameters"
  std::vector<std::string> saved_modules = {};  // "modules_to_save"
  std::array<uint32_t, 3> written_by = {};      // "peft_version"; {}: before 0.18
  std::string base_name = {};                   // "base_model_name_or_path"

  // Return the values for a module, or for a parameter such as
  // "model.layers.0.mlp.experts.down_proj". Errors: as for NamePattern::matches().
  Result<uint32_t> rank_of(std::string_view name) const;
  Result<float> scale_of(std::string_view name) const;

  // Returns whether the parameter is one of target_parameters.
  bool has_parameter(std::string_view name) const;

  // Returns whether A of such a stack has as many columns as the matrices have rows. PEFT used to
  // treat the first axis as the inputs even if it was the rows. Since 0.19.1, A has the size of the
  // columns.
  bool flips_stacks(ExpertStacks stacks) const;
};

// Parses an adapter_config.json. Errors: kCorrupt, and kUnsupported for anything but LoRA and DoRA;
// both name the key. Source: huggingface/peft, LoraConfig.
Result<PeftConfig> read_peft_config(std::string_view json);

// Reads the tensors of an adapter_model.safetensors, "base_model.model." + module +
// ".lora_A.weight" and so on, with such a config. If several parameters of a module have pairs,
// ".base_layer" follows the module for each later one (huggingface/peft, ParamWrapper). Errors as
// for open_adapter(), without the path.
Result<std::unique_ptr<AdapterSource>> read_peft_adapter(const PeftConfig& config,
                                                         std::unique_ptr<ModelSource> file,
                                                         std::string label,
                                                         const ModelConfig& model, float factor);

}  // namespace kvik
