#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// What an adapter_config.json says of the scales.
struct PeftConfig {
  uint32_t rank = 0;
  double alpha = 0;
  // Of the modules whose names are, or end in a dot and, these.
  std::map<std::string, uint32_t> ranks;
  std::map<std::string, double> alphas;
  bool has_root_scale = false;  // alpha / √rank (Kalajdzievski 2023)
  std::string base_name;        // "base_model_name_or_path"

  uint32_t rank_of(std::string_view module) const;
  float scale_of(std::string_view module) const;
};

// Errors: kCorrupt, kUnsupported for whatever makes it no plain LoRA; each names the key. Source:
// huggingface/peft, LoraConfig.
Result<PeftConfig> read_peft_config(std::string_view json);

// The tensors of an adapter_model.safetensors, "base_model.model." + module + ".lora_A.weight" and
// the like, with such a config. Errors as open_adapter(), without the path.
Result<std::unique_ptr<AdapterSource>> read_peft_adapter(const PeftConfig& config,
                                                         std::unique_ptr<ModelSource> file,
                                                         std::string label,
                                                         const ModelConfig& model, float factor);

}  // namespace kvik
