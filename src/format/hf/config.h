#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/block_floats.h"
#include "format/hf/quantization.h"

namespace kvik::hf {

// A tensor that a GGUF file of the model has, and a folder says in config.json.
struct StatedVector {
  TensorRole role{};
  std::vector<float> values;
};

// What config.json says.
struct FolderConfig {
  const FolderType* type = nullptr;
  Metadata metadata;  // keys of a GGUF file of the same model, the vocabulary's aside
  uint32_t n_vocab = 0;
  std::optional<Quantization> quantization;
  std::optional<BlockFloats> block_floats;
  std::optional<bool> ties_embedding;  // the embedding is the head, too
  std::vector<StatedVector> vectors;
  std::vector<uint64_t> end_ids;  // "eos_token_id"
};

// Errors: kUnsupported for a type of models, a quantisation or a feature that is not known (the
// message says which are), kCorrupt for what is missing or cannot be. Each names the key.
Result<FolderConfig> read_folder_config(std::string_view json);

}  // namespace kvik::hf
