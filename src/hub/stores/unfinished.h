#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/hub_options.h"

namespace kvik {

// A file of a download that has not ended.
struct UnfinishedFile {
  std::string path;
  std::string lock_path;
  uint64_t disk_bytes = 0;  // space that it takes
};

// Returns the unfinished downloads in all cache folders.
std::vector<UnfinishedFile> find_unfinished(const HubOptions& options);

// Removes the unfinished downloads that are not in progress, and returns the space that they took.
// Errors: kIo.
Result<uint64_t> remove_unfinished(const HubOptions& options);

}  // namespace kvik
