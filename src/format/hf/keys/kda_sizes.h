#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// A key of config.json, in an object of its own if this has it.
struct StatedKey {
  const JsonObject& of;
  const char* name;
};

// Reads the sizes of a head and of the convolution of Kimi Delta Attention with n heads. Errors,
// which name these keys: kCorrupt.
Result<void> read_kda_sizes(const StatedKey& head_dim, const StatedKey& kernel_size,
                            uint32_t n_heads, GgufKeys& keys);

}  // namespace kvik::hf
