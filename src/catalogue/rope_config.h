#pragma once

#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// The rope.* keys, but for the pairing, which is the family's. Errors: kCorrupt for what cannot be,
// kUnsupported for a scaling that is not known (the message lists those that are).
Result<RopeConfig> read_rope(const KeyReader& keys, uint32_t head_dim, uint32_t n_ctx_train);

}  // namespace kvik
