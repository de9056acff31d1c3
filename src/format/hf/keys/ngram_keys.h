#pragma once

#include "base/json/json_object.h"
#include "base/result.h"
#include "format/hf/gguf_keys.h"

namespace kvik::hf {

// Adds the keys of n-grams (NgramConfig) and of the output gate of a Qwen4-Exp folder. Folders
// state a seed, from which the multipliers and the sizes of the heads are derived; GGUF files state
// these.
Result<void> read_ngrams(const JsonObject& config, GgufKeys& keys);

}  // namespace kvik::hf
