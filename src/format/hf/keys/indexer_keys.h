#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads which layers have an indexer of their own and which share that of an earlier layer (GLM 5):
// as a list of layers, as a pattern, or by the distance of layers with an indexer.
Result<void> read_shared_indexers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys);

}  // namespace kvik::hf
