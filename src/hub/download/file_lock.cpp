#include "hub/download/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kvik {

Result<void> make_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return {};
  return fail(ErrorCode::kIo,
              fmt::format("cannot create the folder '{}': {}", path, error.message()));
}

Result<std::optional<FileLock>> FileLock::try_lock(const std::string& path) {
  TRY(make_folders(std::filesystem::path(path).parent_path().string()));
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.is_open()) {
    return fail(ErrorCode::kIo, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  for (;;) {
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return FileLock(std::move(file));
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno == EINTR) continue;
    return fail(ErrorCode::kIo, fmt::format("cannot lock '{}': {}", path, std::strerror(errno)));
  }
}

}  // namespace kvik
