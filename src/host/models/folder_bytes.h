#pragma once

#include <cstdint>
#include <string>

namespace kvik {

// Returns the bytes that the files in a folder occupy; 0 if there is no such folder.
uint64_t folder_bytes(const std::string& folder);

// Returns the bytes that may still be written to the file system of a folder; 0 if that is not
// known.
uint64_t free_bytes(const std::string& folder);

}  // namespace kvik
