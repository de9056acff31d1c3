#pragma once

#include <string>

#include "base/result.h"
#include "format/hf/config.h"
#include "format/model_source.h"

namespace kvik::hf {

// Gives the tensors of a folder the names and layout of a GGUF file of the model, and the source
// the metadata of `config`. Separate experts are stacked, and quantized matrices become integer
// groups. Errors name the tensor as in the folder: kCorrupt for one that is missing or does not
// fit, kUnsupported for one that the model type does not have. Drops copies that loaders recreate,
// such as a tied head, and vision and audio parts.
Result<void> arrange_folder(ModelSource& source, std::string label, FolderConfig config);

}  // namespace kvik::hf
