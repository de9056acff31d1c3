#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads which layers with MLA have RoPE ("no_rope_layers", or every one but each
// "no_rope_layer_interval"-th), and the layer whose latent K each layer attends to
// ("kv_source_layers"; Mistral Large 4). Also checks that the scaling of RoPE leaves the divisors
// of its frequencies to the tensor that learned them. Errors: kCorrupt for a list of another
// length, kUnsupported for another scaling.
Result<void> read_latent_keys(const JsonObject& config, uint32_t n_layers, GgufKeys& keys);

}  // namespace kvik::hf
