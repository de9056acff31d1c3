#pragma once

#include <cstdint>
#include <vector>

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/config.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

struct TurnedHead {
  uint32_t n_dims;  // that turn unless config.json says fewer
  uint32_t n_ctx;   // trained
};

// Reads how heads turn: "rope_theta" with "rope_scaling", or "rope_parameters" as transformers 5
// has it. What GGUF files hold as tensors of divisors (llama3, longrope) is appended to `vectors`.
// Errors: kUnsupported for another scaling (the message lists those that are known), kCorrupt.
Result<void> read_rope(const JsonObject& config, const Family& family, TurnedHead head,
                       GgufKeys& keys, std::vector<StatedVector>& vectors);

}  // namespace kvik::hf
