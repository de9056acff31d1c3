#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik::hf {

// Opens a folder of Hugging Face: config.json, model.safetensors or its index and pieces, and,
// where they are there, tokenizer.json and what stands beside it. Headers alone are read; the
// source has the tensors and keys that a GGUF file of the same model would have, so that it
// computes the same bits. Errors: kNotFound, kIo, kCorrupt, kUnsupported, naming the folder, and
// the key or the tensor as the folder calls it.
Result<std::unique_ptr<ModelSource>> open_folder(const std::string& path);

}  // namespace kvik::hf
