#include "cli/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace kvik {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::unexpected<Error> io_error(std::string_view what, const std::string& path) {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// A rename is on the device once its folder is.
void flush_folder_of(const fs::path& path) {
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

}  // namespace

Result<void> write_atomically(const std::string& path, std::string_view bytes, unsigned mode) {
  std::error_code ignored;
  const fs::path at_link = fs::canonical(path, ignored);  // a link stays one
  const std::string target = at_link.empty() ? path : at_link.string();
  struct stat old {};
  const unsigned old_mode = ::stat(target.c_str(), &old) == 0 ? old.st_mode & 0777u : mode;

  std::string beside = target + ".XXXXXX";
  const Descriptor file(::mkostemp(beside.data(), O_CLOEXEC));
  if (file.get() < 0) return io_error("write", path);
  const bool is_written = write_all(file.get(), bytes) && ::fchmod(file.get(), old_mode) == 0 &&
                          ::fsync(file.get()) == 0 && ::rename(beside.c_str(), target.c_str()) == 0;
  if (!is_written) {
    const auto error = io_error("write", path);
    ::unlink(beside.c_str());
    return error;
  }
  flush_folder_of(target);
  return {};
}

Result<std::string> read_whole(const std::string& path, size_t max_bytes) {
  // A pipe or a device must not be waited for.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0) return io_error("read", path);
  if (!S_ISREG(about.st_mode)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("'{}' is no regular file", path));
  }
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path);
    if (n == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(n));
    if (bytes.size() > max_bytes) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is longer than {} bytes", path, max_bytes));
    }
  }
}

}  // namespace kvik
