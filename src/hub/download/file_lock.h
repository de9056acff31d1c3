#pragma once

#include <optional>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// An exclusive lock (flock) on a file, as huggingface_hub takes it too. Held until it is destroyed;
// the system releases it if the process is killed. The file stays.
class FileLock {
 public:
  // Creates the file and its folders if they are missing. Returns std::nullopt if another process
  // or thread holds the lock. Errors: kIo.
  static Result<std::optional<FileLock>> try_lock(const std::string& path);

 private:
  explicit FileLock(FileDescriptor file) : file_(std::move(file)) {}

  FileDescriptor file_;
};

// Creates the missing folders of a path. Errors: kIo, naming the path.
Result<void> make_folders(const std::string& path);

}  // namespace kvik
