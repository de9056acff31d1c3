#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A regular file whose parts are read when they are wanted. It may be cut or lie on a device that
// fails meanwhile: that is an error of the read. (A mapping would raise SIGBUS, on any thread.)
// Any thread may read.
class InputFile {
 public:
  // Errors: kNotFound where there is no such file, kIo with the system's reason otherwise (a
  // folder, a pipe, no permission), kCorrupt for an empty file. Waits for nobody.
  static Result<InputFile> open(const std::string& path);

  // When it was opened.
  uint64_t size() const { return size_; }

  // Fills `bytes` with what lies at `offset`. kCorrupt where the file has become too short, kIo.
  Result<void> read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(FileDescriptor file, uint64_t size, std::string path)
      : file_(std::move(file)), size_(size), path_(std::move(path)) {}

  FileDescriptor file_;
  uint64_t size_;
  std::string path_;
};

}  // namespace kvik
