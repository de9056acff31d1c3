#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kvik {

// Puts a file in the place of `path`, whole or not at all: it is written beside, flushed to the
// device, and renamed. Its permissions are those of the file it replaces, else `mode`. kIo.
Result<void> write_atomically(const std::string& path, std::string_view bytes, unsigned mode);

// All of a regular file of at most max_bytes. kNotFound, kIo; kInvalidArgument where it is longer,
// or no regular file.
Result<std::string> read_whole(const std::string& path, size_t max_bytes);

}  // namespace kvik
