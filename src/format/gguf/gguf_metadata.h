#pragma once

#include <cstdint>

#include "base/metadata.h"
#include "base/result.h"
#include "format/gguf/gguf_cursor.h"

namespace kvik {

// Alignment of tensor data if the file states none.
inline constexpr uint64_t kDefaultAlignment = 32;

// Reads `n_keys` typed key-value pairs. Errors name the key: an impossible count, an empty or
// repeated key, an unknown value type, a bool other than 0 and 1 (kCorrupt), and an array of
// arrays, which no known model uses (kUnsupported).
Result<Metadata> read_gguf_metadata(GgufCursor& in, uint64_t n_keys);

}  // namespace kvik
