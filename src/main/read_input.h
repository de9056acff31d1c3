#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace kvik {

// More than the text of any context.
constexpr size_t kMaxInputBytes = size_t{32} << 20;

// Returns the content of a file, of a pipe such as <(command), or of stdin for "-". Errors:
// kNotFound, kIo; kInvalidArgument if it is longer, as a device that never ends.
Result<std::string> read_input(const std::string& path, size_t max_bytes = kMaxInputBytes);

}  // namespace kvik
