#pragma once

#include <memory>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// Reads a GGUF file as an adapter: "general.type" = "adapter", "adapter.type" = "lora",
// "adapter.lora.alpha", and tensors "W.lora_a" and "W.lora_b" for each updated matrix W (llama.cpp,
// convert_lora_to_gguf.py). The scale is alpha / rank, or 1 if alpha is 0. Errors as for
// open_adapter(), without the path.
Result<std::unique_ptr<AdapterSource>> read_gguf_adapter(std::unique_ptr<ModelSource> file,
                                                         const ModelConfig& model, float factor);

}  // namespace kvik
