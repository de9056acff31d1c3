#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik::hf {

// Opens a Hugging Face folder: config.json, model.safetensors or its index and pieces, and
// tokenizer.json and related files if present. Only headers are read; the source has the tensors
// and keys that a GGUF file of the same model would have, so that it computes the same bits.
// Errors: kNotFound, kIo, kCorrupt, kUnsupported, naming the folder, and the key or tensor by its
// name in the folder.
Result<std::unique_ptr<ModelSource>> open_folder(const std::string& path);

}  // namespace kvik::hf
