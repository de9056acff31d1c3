#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvik {

Result<InputFile> InputFile::open(const std::string& path) {
  // A pipe must not be waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  InputFile file(fd, 0, path);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kIo, fmt::format("'{}' is not a regular file", path));
  }
  if (info.st_size == 0) return fail(ErrorCode::kCorrupt, fmt::format("'{}' is empty", path));
  file.size_ = static_cast<uint64_t>(info.st_size);
  return file;
}

InputFile::InputFile(InputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path_, std::strerror(errno)));
    }
    if (n == 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("'{}' ends at byte {}, expected {}: it was cut while it was read",
                              path_, offset + done, size_));
    }
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace kvik
