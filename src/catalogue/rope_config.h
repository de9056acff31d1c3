#pragma once

#include "catalogue/family.h"
#include "catalogue/key_reader.h"
#include "catalogue/model_config.h"

namespace kvik {

// Sizes of a model that RoPE depends on.
struct RopeDims {
  uint32_t n_dims;  // rotated dimensions of a head, unless the file states fewer
  uint32_t n_ctx_train;
};
// Reads the rope.* keys. The pairing is a trait of the family, which the caller sets. Errors:
// kCorrupt for an impossible value, kUnsupported for an unknown scaling (the message lists the
// known ones).
Result<RopeConfig> read_rope(const KeyReader& keys, const Family& family, RopeDims rotated);

}  // namespace kvik
