#pragma once

#include <string>
#include <string_view>

#include "base/metadata.h"
#include "base/result.h"
#include "format/model_source.h"

namespace kvik::hf {

// Returns whether a tensor of a folder is a parameter of xIELU. GGUF files have keys instead.
bool is_of_xielu(std::string_view tensor);

// Adds the keys "xielu.…" with a number per layer from the folder's tensors. Errors: kCorrupt for a
// tensor that is missing or not one number; those of reading.
Result<void> read_xielu(ModelSource& source, const std::string& architecture, Metadata& metadata);

}  // namespace kvik::hf
