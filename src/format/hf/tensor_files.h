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

// Names of tensors by file.
using TensorIndex = std::map<std::string, std::set<std::string>>;

// Reads a model.safetensors.index.json. Errors: kCorrupt if it is not JSON, the name of a file has
// a folder or another ending than ".safetensors", or there are more than 4096 files.
Result<TensorIndex> read_tensor_index(std::string_view json);

// Opens model.safetensors, or the files that model.safetensors.index.json lists. Errors: kNotFound
// if there is neither, kCorrupt if index and files differ, and those of open_safetensors().
Result<std::unique_ptr<ModelSource>> open_tensor_files(const std::string& folder);

// Reads a small text file; std::nullopt if there is none. Errors: kIo, kCorrupt for more than
// max_bytes.
Result<std::optional<std::string>> read_text_file(const std::string& path, size_t max_bytes);

}  // namespace kvik::hf
