#pragma once

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads the number of experts, their routing and the shared experts; nothing if the type of folder
// has none.
Result<void> read_experts(const JsonObject& config, const FolderType& type, GgufKeys& keys);

}  // namespace kvik::hf
