#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads the keys of KDA, the kinds of the layers, and the limits of the MLPs of GLM 5.3. Errors:
// kCorrupt, kUnsupported.
Result<void> read_glm5_next(const JsonObject& config, uint32_t n_layers, GgufKeys& keys);

}  // namespace kvik::hf
