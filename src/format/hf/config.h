#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/floats/block_floats.h"
#include "format/hf/quantization.h"

namespace kvik::hf {

// A tensor that a GGUF file stores and a folder states in config.json.
struct ConfigVector {
  TensorRole role{};
  std::vector<float> values;
  uint32_t layer = 0;
};

// Contents of config.json.
struct FolderConfig {
  const FolderType* type = nullptr;
  std::string architecture;
  Metadata metadata;  // keys of a GGUF file of the same model, without the vocabulary
  uint32_t n_vocab = 0;
  std::optional<Quantization> quantization;
  std::optional<BlockFloats> block_floats;
  std::optional<bool> ties_embedding;  // the head is tied to the embedding
  std::vector<ConfigVector> vectors;
  std::vector<FolderValue> values;  // of the type, those first that the folder states
  uint64_t n_left_out_layers = 0;   // MTP layers that the GGUF keys do not state
  std::vector<uint64_t> end_ids;    // "eos_token_id"
  // rows at the beginning of an encoder's table of positions that no token has
  uint32_t n_unused_positions = 0;
  // of a reranker: rows of the output head that are its classifier
  std::vector<uint64_t> score_tokens;
};

// Parses config.json. Errors: kUnsupported for an unknown model type, quantization or feature (the
// message lists the known ones), kCorrupt for missing or impossible values. Each names the key.
Result<FolderConfig> read_folder_config(std::string_view json);

}  // namespace kvik::hf
