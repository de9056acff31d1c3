#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik {

// A manifest of Ollama's registry (Docker's image manifest, version 2, schema 2).
struct OllamaManifest {
  struct Layer {
    std::string media_type;
    std::string sha256;  // in hex
    uint64_t n_bytes = 0;
  };
  std::vector<Layer> layers;  // of the model first, the config last

  static constexpr std::string_view kModelLayer = "application/vnd.ollama.image.model";
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  // Layer with the weights.
  const Layer& model() const { return layers.front(); }
  const Layer& config() const { return layers.back(); }
};

// Errors: kCorrupt for text that is no manifest, kUnsupported for a manifest without exactly one
// layer of weights.
Result<OllamaManifest> parse_ollama_manifest(const std::string& json);

// The config of a model.
struct OllamaConfig {
  std::string family, parameter_size, quantization;  // empty: unknown
};
// Members of other types are empty.
OllamaConfig parse_ollama_config(const std::string& json);

}  // namespace kvik
