#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/file/file_descriptor.h"
#include "base/result.h"

namespace kvik {

// A file that comes to be whole or not at all. It is written beside its place, without a name where
// the file system knows such files (a process that is killed then leaves nothing), and takes its
// place once all of it is on the device. Destroyed before commit(), it is gone.
class NewFile {
 public:
  // Errors: kNotFound for a missing folder, kIo. Where `path` is a link, what it leads to will be
  // replaced; a file that is there keeps its permissions, a new one gets `mode` less the umask.
  static Result<NewFile> create(const std::string& path, unsigned mode);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Asks for so much room, so that a full disk is found before the work is done. kIo.
  Result<void> reserve(uint64_t n_bytes);
  Result<void> write(std::span<const std::byte> bytes);
  // On the device and in its place. Nothing may follow.
  Result<void> commit();

 private:
  explicit NewFile(std::string path) : path_(std::move(path)) {}

  std::unexpected<Error> error() const;

  std::string path_;    // as the caller wrote it
  std::string target_;  // where links lead
  std::string beside_;  // the name until then; empty: none
  FileDescriptor file_;
};

}  // namespace kvik
