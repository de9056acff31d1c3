#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "format/hf/family.h"
#include "format/hf/quantization.h"

namespace kvik::hf {

// A tensor that a GGUF file of the model has, and a folder says in config.json.
struct StatedVector {
  std::string name;
  std::vector<float> values;
};

// What config.json says.
struct FolderConfig {
  const Family* family = nullptr;
  Metadata metadata;  // keys of a GGUF file of the same model, the vocabulary's aside
  uint32_t n_layers = 0;
  uint32_t n_vocab = 0;
  uint32_t n_experts = 0;  // 0: none
  uint32_t head_dim = 0;
  bool has_shared_expert = false;
  std::optional<Quantization> quantization;
  std::optional<bool> ties_embedding;  // the embedding is the head, too
  std::vector<StatedVector> vectors;
  std::vector<uint64_t> end_ids;  // "eos_token_id"
};

// Errors: kUnsupported for a type of models, a quantisation or a feature that is not known (the
// message says which are), kCorrupt for what is missing or cannot be. Each names the key.
Result<FolderConfig> read_folder_config(std::string_view json);

}  // namespace kvik::hf
