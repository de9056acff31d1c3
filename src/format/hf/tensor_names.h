#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "format/hf/config.h"
#include "format/model_source.h"

namespace kvik::hf {

// Whether a folder's tensor, or module, of that name is of a part that sees or hears: no text.
bool sees_or_hears(std::string_view name);

// Gives the tensors of a folder the names and the elements of a GGUF file of the model, and the
// source the metadata of `config`. Experts that lie apart become one stack, quantised matrices
// integer groups. Errors name the tensor as the folder does: kCorrupt for one that is missing or
// does not fit its neighbours, kUnsupported for one that the model's type does not have. Copies
// that loaders make again, such as a tied head, and the parts of a model that see or hear are left
// out.
Result<void> arrange_folder(ModelSource& source, std::string label, FolderConfig config);

}  // namespace kvik::hf
