#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace kvik {
namespace {

constexpr uintptr_t kSystemPageBytes = 4096;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, fmt::format("cannot open '{}': {}", path, std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    return fail(ErrorCode::kIo, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::kIo, fmt::format("'{}' is not a regular file", path));
  }
  if (info.st_size == 0) return fail(ErrorCode::kCorrupt, fmt::format("'{}' is empty", path));
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::kIo, fmt::format("cannot map '{}': {}", path, std::strerror(errno)));
  }
  return MappedFile(static_cast<std::byte*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  // Whole system pages inside the part only: its neighbours may still be needed.
  auto begin = reinterpret_cast<uintptr_t>(part.data());
  auto end = begin + part.size();
  begin = (begin + kSystemPageBytes - 1) / kSystemPageBytes * kSystemPageBytes;
  end = end / kSystemPageBytes * kSystemPageBytes;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace kvik
