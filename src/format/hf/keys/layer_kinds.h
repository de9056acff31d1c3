#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads the keys of a model whose layers are of several kinds (catalogue/families/gemma.cpp),
// including those of sliding-window layers. Returns head_dim of the full-attention layers.
Result<uint32_t> read_layer_kinds(const JsonObject& config, const FamilyFolder& of, GgufKeys& keys);

}  // namespace kvik::hf
