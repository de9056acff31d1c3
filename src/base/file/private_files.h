#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// Permissions of files that only their owner may access.
inline constexpr unsigned kPrivateFile = 0600;
inline constexpr unsigned kPrivateFolder = 0700;

// Creates the missing folders of a path with private permissions. Errors: kIo.
Result<void> make_private_folders(const std::string& path);

// Prepares the name of a file that only this process writes: afterwards the file does not exist, or
// is a private regular file that may be read and written. Anything else of that name (a folder, a
// link, a pipe, a file with several names) is renamed and logged. Errors: kIo if that fails.
Result<void> prepare_private_file(const std::string& path);

}  // namespace kvik
