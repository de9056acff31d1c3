#pragma once

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// What config.json says of layers that remember in a state, and of layers that lack a half; before
// the geometry is read, whose one number for all layers gives way to a list. Errors: kCorrupt,
// kUnsupported.
Result<void> read_recurrence(const JsonObject& config, const Family& family, GgufKeys& keys);

}  // namespace kvik::hf
