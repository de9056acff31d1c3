#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A regular file that is read in parts. If the file is truncated or its device fails meanwhile, the
// read returns an error. (A memory mapping would raise SIGBUS, on any thread.) Any thread may read.
class InputFile {
 public:
  // Errors: kNotFound if there is no such file, kCorrupt for an empty file, otherwise kIo with the
  // system's reason (a folder, a pipe, no permission). Never blocks.
  static Result<InputFile> open(const std::string& path);

  // Size when it was opened, in bytes.
  uint64_t size() const { return size_; }

  // Checks that nothing was written to the file since it was opened, by its size and the time of
  // its last change. Errors: kCorrupt otherwise, kIo.
  Result<void> check_unchanged() const;

  // Reads bytes.size() bytes at `offset`. Errors: kCorrupt if the file has become too short, kIo.
  Result<void> read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(FileDescriptor file, uint64_t size, timespec changed, std::string path)
      : file_(std::move(file)), size_(size), changed_(changed), path_(std::move(path)) {}

  FileDescriptor file_;
  uint64_t size_;
  timespec changed_;  // time of the last change when it was opened
  std::string path_;
};

}  // namespace kvik
