#pragma once

#include <cstdint>

#include "base/json/json_object.h"
#include "base/result.h"
#include "catalogue/family.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// A family and the number of its layers, without MTP layers.
struct KdaFamily {
  const Family& family;
  uint32_t n_layers = 0;
};

// Reads the keys of models with KDA and MLA. Errors: kCorrupt, kUnsupported.
Result<void> read_kda(const JsonObject& config, const KdaFamily& of, GgufKeys& keys);

}  // namespace kvik::hf
