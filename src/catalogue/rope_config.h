#pragma once

#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// The rope.* keys, but for the pairing, which is the family's. Errors: kCorrupt for what cannot be,
// kUnsupported for a scaling that is not known (the message lists those that are).
struct TurnedDims {
  uint32_t n_dims;  // of a head that turn, unless the file says fewer
  uint32_t n_ctx_train;
};
Result<RopeConfig> read_rope(const KeyReader& keys, const Family& family, TurnedDims turned);

}  // namespace kvik
