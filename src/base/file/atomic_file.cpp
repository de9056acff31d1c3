#include "base/file/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "base/file/file_descriptor.h"
#include "base/file/new_file.h"

namespace kvik {
namespace {

std::unexpected<Error> unreadable(const std::string& path) {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
}

}  // namespace

Result<void> write_atomically(const std::string& path, std::string_view bytes, unsigned mode) {
  TRY_ASSIGN(auto file, NewFile::create(path, mode));
  TRY(file.write(std::as_bytes(std::span(bytes))));
  return file.commit();
}

Result<std::string> read_whole(const std::string& path, size_t max_bytes) {
  // O_NONBLOCK: opening a pipe or a device must not block.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.is_open() || ::fstat(file.get(), &about) != 0) return unreadable(path);
  if (!S_ISREG(about.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a regular file", path));
  }
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable(path);
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
    if (bytes.size() > max_bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is longer than {} bytes", path, max_bytes));
    }
  }
}

}  // namespace kvik
