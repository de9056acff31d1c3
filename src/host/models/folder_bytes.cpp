#include "host/models/folder_bytes.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

namespace kvik {

uint64_t folder_bytes(const std::string& folder) {
  constexpr uint64_t kBlock = 512;  // unit of st_blocks
  uint64_t n_bytes = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    struct stat status {};
    if (lstat(at->path().c_str(), &status) == 0)
      n_bytes += static_cast<uint64_t>(status.st_blocks) * kBlock;
  }
  return n_bytes;
}

uint64_t free_bytes(const std::string& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  return error ? 0 : space.available;
}

}  // namespace kvik
