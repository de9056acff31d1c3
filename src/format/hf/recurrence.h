#pragma once

#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"
#include "format/hf/json_object.h"

namespace kvik::hf {

// What config.json says of layers that remember in a state. Errors: kCorrupt, kUnsupported.
Result<void> read_recurrence(const JsonObject& config, const Family& family, uint32_t n_layers,
                             GgufKeys& keys);

}  // namespace kvik::hf
