#pragma once

#include <cstdint>
#include <vector>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/config.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Sizes of a model that RoPE depends on.
struct RopeHead {
  uint32_t n_dims;  // rotated dimensions, unless config.json states fewer
  uint32_t n_ctx;   // trained context
};

// Reads RoPE: "rope_theta" with "rope_scaling", or "rope_parameters" of Transformers 5. Divisors
// that GGUF files store as tensors (llama3, longrope) are appended to `vectors`. Errors:
// kUnsupported for another scaling (the message lists the known ones), kCorrupt.
Result<void> read_rope(const JsonObject& config, const Family& family, RopeHead head,
                       GgufKeys& keys, std::vector<ConfigVector>& vectors);

}  // namespace kvik::hf
