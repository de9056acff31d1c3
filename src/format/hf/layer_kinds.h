#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads the keys of layers that differ (catalogue/families/gemma.cpp), including those of
// sliding-window layers. Returns head_dim of the full-attention layers, which is the default for
// all.
Result<uint32_t> read_layer_kinds(const JsonObject& config, GgufKeys& keys);

}  // namespace kvik::hf
