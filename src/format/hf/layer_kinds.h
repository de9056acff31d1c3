#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads what config.json says of layers that differ (catalogue/families/gemma.cpp): the keys of
// layers, and those of layers with a window. → the width of a head of the layers without, which
// stands for all where no other is said.
Result<uint32_t> read_layer_kinds(const JsonObject& config, GgufKeys& keys);

}  // namespace kvik::hf
