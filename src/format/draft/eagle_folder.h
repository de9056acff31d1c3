#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Returns whether the folder's config.json is that of an EAGLE-3 head, as Transformers, SGLang and
// vLLM name them.
bool is_eagle_folder(const std::string& path);

// Returns whether the folder has the tensors of an EAGLE-3 head, whatever its config.json says.
bool has_eagle_tensors(const std::string& path);
// Opens such a folder. The source has the tensors and keys of a GGUF file of the head
// (eagle_head.h), whatever names the folder has for them. Errors: those of hf::open_folder(), and
// kUnsupported for a key or tensor that the head would need.
Result<std::unique_ptr<ModelSource>> open_eagle_folder(const std::string& path);

}  // namespace kvik
