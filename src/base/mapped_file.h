#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace kvik {

// A file's bytes, mapped read-only; unmapped by the destructor.
// Any thread may read. A file that is cut while mapped raises SIGBUS: it belongs to the user.
class MappedFile {
 public:
  // Errors: kNotFound where there is no such file, kIo with the system's reason otherwise
  // (a folder, no permission), kCorrupt for an empty file.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Tells the system that this part will not be read again soon, so that its memory can go.
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvik
