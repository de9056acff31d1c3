#pragma once

#include <cstdint>
#include <vector>

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

// Returns which layers have a window; empty if config.json does not list them. Errors: kUnsupported
// for an unknown type of layer, kCorrupt for a list of another length.
Result<std::vector<bool>> listed_windows(const JsonObject& config, const Family& family,
                                         uint32_t n_layers);

}  // namespace kvik::hf
