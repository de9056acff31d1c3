#pragma once

#include <string>

#include "base/result.h"

namespace kvik {

// What is nobody else's business: files of 0600 in folders of 0700.
inline constexpr unsigned kPrivateFile = 0600;
inline constexpr unsigned kPrivateFolder = 0700;

// Makes those folders of a path that are missing, each private. kIo.
Result<void> make_private_folders(const std::string& path);

// Readies the name of a file that this process alone writes: afterwards there is none, or a private
// regular one that it may read and write. What else has the name (a folder, a link, a pipe, a file
// with a second name) is renamed, and the log says so. kIo where that fails.
Result<void> ready_private_place(const std::string& path);

}  // namespace kvik
