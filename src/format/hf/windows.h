#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Reads which layers have sliding windows, and checks that those without RoPE are the family's.
// Errors: kUnsupported for a pattern that the family does not have, kCorrupt for an impossible
// value.
Result<void> read_windows(const JsonObject& config, const FamilyFolder& of, uint32_t n_layers,
                          GgufKeys& keys);

}  // namespace kvik::hf
