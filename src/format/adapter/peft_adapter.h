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

// What an adapter_config.json says of the scales, and of what is changed. Which modules are, and in
// which layers, its tensors tell.
struct PeftConfig {
  template <class T>
  struct OfModules {
    NamePattern names;
    T value;
  };

  uint32_t rank = 0;
  double alpha = 0;
  // The first of these that means a module counts.
  std::vector<OfModules<uint32_t>> ranks = {};
  std::vector<OfModules<double>> alphas = {};
  bool has_root_scale = false;                  // alpha / √rank (Kalajdzievski 2023)
  bool has_magnitudes = false;                  // "use_dora"
  std::vector<std::string> parameters = {};     // "target_parameters"
  std::vector<std::string> saved_modules = {};  // "modules_to_save"
  std::array<uint32_t, 3> written_by = {};      // "peft_version"; {}: one before 0.18
  std::string base_name = {};                   // "base_model_name_or_path"

  // Of a module, or of a module's parameter: "model.layers.0.mlp.experts.down_proj". Errors: as
  // NamePattern::matches().
  Result<uint32_t> rank_of(std::string_view name) const;
  Result<float> scale_of(std::string_view name) const;

  // Whether the parameter is one of target_parameters.
  bool has_parameter(std::string_view name) const;

  // PEFT has taken the two axes of a stack's matrices for inputs and outputs, whatever they are, so
  // that A was made for a matrix's rows where those come first. Since 0.19.1 A has its columns.
  bool flips_stacks(ExpertStacks stacks) const;
};

// Errors: kCorrupt, kUnsupported for whatever makes it neither LoRA nor DoRA; each names the key.
// Source: huggingface/peft, LoraConfig.
Result<PeftConfig> read_peft_config(std::string_view json);

// The tensors of an adapter_model.safetensors, "base_model.model." + module + ".lora_A.weight" and
// the like, with such a config. Where several parameters of a module have pairs, ".base_layer"
// stands behind the module for each that comes after (huggingface/peft, ParamWrapper). Errors as
// open_adapter(), without the path.
Result<std::unique_ptr<AdapterSource>> read_peft_adapter(const PeftConfig& config,
                                                         std::unique_ptr<ModelSource> file,
                                                         std::string label,
                                                         const ModelConfig& model, float factor);

}  // namespace kvik
