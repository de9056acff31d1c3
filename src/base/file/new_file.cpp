#include "base/file/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kvik {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const fs::path& path) {
  return path.parent_path().empty() ? "." : path.parent_path().string();
}

// Calls body(name) with names in the folder of `target` until one is free.
template <class Body>
int with_free_name(const std::string& target, std::string& name, const Body& body) {
  for (unsigned i = 0; i < 1000; ++i) {
    name = fmt::format("{}.{}-{}", target, ::getpid(), i);
    const int got = body(name.c_str());
    if (got >= 0 || errno != EEXIST) return got;
  }
  return -1;
}

// Flushes the folder: only then is a rename on the device.
void flush_folder_of(const std::string& path) {
  const FileDescriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open()) ::fsync(folder.get());
}

}  // namespace

std::unexpected<Error> NewFile::error() const {
  return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
              fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
}

Result<NewFile> NewFile::create(const std::string& path, unsigned mode) {
  NewFile file(path);
  std::error_code ignored;
  const fs::path at_link = fs::canonical(path, ignored);  // keeps a symbolic link
  file.target_ = at_link.empty() ? path : at_link.string();
  if (fs::is_directory(file.target_, ignored)) {
    errno = EISDIR;
    return file.error();
  }
  if (fs::exists(file.target_, ignored) && !fs::is_regular_file(file.target_, ignored)) {
    return fail(ErrorCode::kIo,
                fmt::format("cannot write '{}': it is a device, pipe or socket, expected a file or "
                            "a new name",
                            path));
  }
  file.file_ = FileDescriptor(
      ::open(folder_of(file.target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
  if (!file.file_.is_open()) {
    file.file_ =
        FileDescriptor(with_free_name(file.target_, file.temporary_path_, [&](const char* name) {
          return ::open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
        }));
  }
  if (!file.file_.is_open()) {
    file.temporary_path_.clear();
    return file.error();
  }
  struct stat old {};
  if (::stat(file.target_.c_str(), &old) == 0) ::fchmod(file.file_.get(), old.st_mode & 0777u);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      file_(std::move(other.file_)) {}

NewFile::~NewFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Result<void> NewFile::reserve(uint64_t n_bytes) {
  if (n_bytes == 0) return {};
  if (::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(n_bytes)) == 0) return {};
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT) return error();
  return {};  // the file system does not report free space
}

Result<void> NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error();
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<void> NewFile::commit() {
  if (::fsync(file_.get()) != 0) return error();
  if (temporary_path_.empty()) {
    // linkat() does not replace files, so the file gets a temporary name and is renamed.
    const std::string self = fmt::format("/proc/self/fd/{}", file_.get());
    const int linked = with_free_name(target_, temporary_path_, [&](const char* name) {
      return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    });
    if (linked < 0) {
      temporary_path_.clear();
      return error();
    }
  }
  if (::rename(temporary_path_.c_str(), target_.c_str()) != 0) return error();
  temporary_path_.clear();
  flush_folder_of(target_);
  return {};
}

}  // namespace kvik
