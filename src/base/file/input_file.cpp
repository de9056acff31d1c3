#include "base/file/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvik {

Result<InputFile> InputFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not block.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kIo, fmt::format("'{}' is not a regular file", path));
  }
  if (info.st_size == 0) return fail(ErrorCode::kCorrupt, fmt::format("'{}' is empty", path));
  return InputFile(std::move(file), static_cast<uint64_t>(info.st_size), info.st_mtim, path);
}

Result<void> InputFile::check_unchanged() const {
  struct stat now {};
  if (::fstat(file_.get(), &now) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path_, std::strerror(errno)));
  }
  if (static_cast<uint64_t>(now.st_size) == size_ && now.st_mtim.tv_sec == changed_.tv_sec &&
      now.st_mtim.tv_nsec == changed_.tv_nsec) {
    return {};
  }
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' was changed after it was opened", path_));
}

Result<void> InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pread(file_.get(), bytes.data() + done, bytes.size() - done,
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path_, std::strerror(errno)));
    }
    if (n == 0) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("'{}' ends at byte {}, expected {}: it was truncated while it was read",
                      path_, offset + done, size_));
    }
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace kvik
