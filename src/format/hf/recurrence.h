#pragma once

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads the keys of recurrent layers and of layers without mixer or feed-forward block. Called
// before the geometry is read, because a list replaces its single number for all layers. Errors:
// kCorrupt, kUnsupported.
Result<void> read_recurrence(const JsonObject& config, const Family& family, GgufKeys& keys);

}  // namespace kvik::hf
