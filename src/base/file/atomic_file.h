#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Replaces the file at `path` atomically: writes a temporary file beside it, flushes it to the
// device and renames it. The permissions are those of the replaced file, else `mode`. Errors: kIo.
Result<void> write_atomically(const std::string& path, std::string_view bytes, unsigned mode);

// Reads a whole regular file of at most max_bytes. Errors: kNotFound, kIo; kInvalidArgument if it
// is longer or not a regular file.
Result<std::string> read_whole(const std::string& path, size_t max_bytes);

}  // namespace kvik
