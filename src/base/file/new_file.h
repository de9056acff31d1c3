#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// Creates a file atomically. It is written without a name where the file system supports that (a
// killed process then leaves nothing), otherwise under a temporary name, and gets its name once all
// of it is on the device. Destroying it before commit() removes it.
class NewFile {
 public:
  // Errors: kNotFound for a missing folder, kIo. If `path` is a symbolic link, its target is
  // replaced. An existing file keeps its permissions, a new one gets `mode` less the umask.
  static Result<NewFile> create(const std::string& path, unsigned mode);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Reserves space, so that a full disk is detected before the work is done. Errors: kIo.
  Result<void> reserve(uint64_t n_bytes);
  Result<void> write(std::span<const std::byte> bytes);
  // Flushes the file and gives it its name. Must be the last call.
  Result<void> commit();

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}

  std::unexpected<Error> error() const;

  std::string path_;            // path as the caller wrote it, for errors
  std::string target_;          // path with symbolic links resolved
  std::string temporary_path_;  // temporary name; empty: none
  FileDescriptor file_;
};

}  // namespace kvik
