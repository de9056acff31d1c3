#pragma once

#include <cstdint>

#include "base/metadata.h"
#include "base/result.h"
#include "format/gguf/gguf_cursor.h"

namespace kvik {

// Of the tensors' bytes, where the file does not state another one.
inline constexpr uint64_t kDefaultAlignment = 32;

// Reads `n_keys` typed key → value pairs. Errors name the key: a count that cannot be, an empty or
// repeated key, an unknown value type, a bool other than 0 and 1 (kCorrupt), and an array of
// arrays, which no key of any known model uses (kUnsupported).
Result<Metadata> read_gguf_metadata(GgufCursor& in, uint64_t n_keys);

}  // namespace kvik
