#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik {

// Files in a folder that several machines mount. They are written under a temporary name and
// renamed, so that a reader sees a whole file or none; they are replaced, never modified. Anything
// else in the folder (folders, links, pipes, files of another length) is ignored.
class SharedFolder {
 public:
  // New folders get `mode`, and new files the same without the execute bits, regardless of the
  // umask.
  SharedFolder(std::string path, unsigned mode) : path_(std::move(path)), mode_(mode) {}

  const std::string& path() const { return path_; }

  enum class Read { kDone, kAbsent, kWrong, kFailed };
  // Reads a file that must be bytes.size() long. Renews its modification time, which shows that it
  // is used, by the file system's clock if it is older than an hour by ours.
  Read read(const std::string& name, std::span<std::byte> bytes) const;

  // Writes a file in a sub-folder, which is created if necessary; replaces an existing file.
  Result<void> write(const std::string& folder, const std::string& name,
                     std::span<const std::byte> bytes) const;
  // Writes a file if none of that name exists. If several writers try, the file of one of them
  // stays and the others do not fail.
  Result<void> write_once(const std::string& name, std::span<const std::byte> bytes) const;
  // Reads the first head.size() bytes of a file; returns false if it is shorter.
  bool read_head(const std::string& name, std::span<std::byte> head) const;

  // Returns the names of at most `limit` files of a sub-folder; none if it cannot be read.
  std::vector<std::string> list(const std::string& folder, size_t limit) const;

  void remove(const std::string& name) const;

 private:
  std::string path_of(std::string_view name) const;
  Result<void> make_folders(const std::string& path) const;
  std::string path_;
  unsigned mode_;
};

}  // namespace kvik
