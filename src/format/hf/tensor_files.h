#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik::hf {

// Names of tensors by the file that has them.
using TensorIndex = std::map<std::string, std::set<std::string>>;

// Reads a model.safetensors.index.json. Errors: kCorrupt where it is no JSON, a file is no plain
// name that ends in ".safetensors", or there are more than 4096.
Result<TensorIndex> read_tensor_index(std::string_view json);

// The tensors of model.safetensors, or of the files that model.safetensors.index.json names.
// Errors: kNotFound where there is neither, kCorrupt for a tensor that the index and the files do
// not agree about, and those of open_safetensors().
Result<std::unique_ptr<ModelSource>> open_tensor_files(const std::string& folder);

// A small file as a text; empty optional where there is none. Errors: kIo, kCorrupt for one of more
// than max_bytes.
Result<std::optional<std::string>> read_text_file(const std::string& path, size_t max_bytes);

}  // namespace kvik::hf
