#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "server/server_options.h"

namespace kvik {

// Reads a file of lines "KEY [NAME [SALT]]". Blank lines and lines that begin with # are left out.
// A key without a name is a tenant of its own: "key-" and its number in the file.
// Errors: kIo; kInvalidArgument (no key, a line of more than three words, a key given twice). None
// of them quotes the file.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path);

}  // namespace kvik
