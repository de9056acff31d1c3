#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "catalogue/model_config.h"
#include "format/gguf_writer.h"
#include "format/safetensors_writer.h"
#include "format/synthetic/synthetic.h"

namespace kvik {

inline ModelConfig config_of(const std::string& preset) {
  const auto source = make_synthetic("synthetic:" + preset);
  CHECK(source.has_value());
  return *read_config((*source)->metadata());
}

inline std::vector<float> counted(size_t n, float first) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = first + static_cast<float>(i) / 8;
  return values;
}

// Returns a LoRA GGUF file as llama.cpp writes it, with the factors of one matrix of shape [n, k].
inline GgufWriter gguf_adapter(const std::string& matrix, uint64_t n, uint64_t k, uint64_t rank,
                               double alpha = 8) {
  GgufWriter file;
  file.key("general.type", "adapter");
  file.key("general.architecture", "llama");
  file.key("adapter.type", "lora");
  file.key("adapter.lora.alpha", static_cast<float>(alpha));
  file.tensor(matrix + ".lora_a", {rank, k}, counted(rank * k, 1));
  file.tensor(matrix + ".lora_b", {n, rank}, counted(n * rank, -1));
  return file;
}

// Returns tensors as PEFT names them, with the factors of one module of shape [n, k].
inline SafetensorsWriter peft_tensors(const std::string& module, uint64_t n, uint64_t k,
                                      uint64_t rank) {
  SafetensorsWriter file;
  file.floats("base_model.model." + module + ".lora_A.weight", {rank, k}, counted(rank * k, 1));
  file.floats("base_model.model." + module + ".lora_B.weight", {n, rank}, counted(n * rank, -1));
  return file;
}

// Returns an adapter_config.json. `more` is appended to its keys, such as R"(, "use_dora": true)".
inline std::string peft_config(uint64_t rank, const std::string& more = "") {
  return fmt::format(
      R"({{"peft_type": "LORA", "r": {}, "lora_alpha": 8, "base_model_name_or_path": "tiny"{}}})",
      rank, more);
}

}  // namespace kvik
