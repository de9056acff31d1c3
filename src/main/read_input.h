#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// Returns the content of a file, of a pipe such as <(command), or of stdin for "-". Errors:
// kNotFound, kIo.
Result<std::string> read_input(const std::string& path);

}  // namespace kvik
