#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik {

// Files of a folder that several machines mount: written beside their place and renamed into it, so
// that a reader sees all of it or nothing; never changed after. Anything else in the folder
// (folders, links, pipes, files of another length) is as if it were not there.
class SharedFolder {
 public:
  // Folders that are made get `mode`, and files the same without the right to execute, whatever the
  // umask.
  SharedFolder(std::string path, unsigned mode) : path_(std::move(path)), mode_(mode) {}

  const std::string& path() const { return path_; }

  enum class Read { kDone, kAbsent, kWrong, kFailed };
  // Reads a file that must be bytes.size() long. Its time of change tells others that it is used:
  // renewed by the file system's own clock where it is older than an hour of ours.
  Read read(const std::string& name, std::span<std::byte> bytes) const;

  // Writes a file in a folder below, which is made where there is none, in the place of one that is
  // there.
  Result<void> write(const std::string& folder, const std::string& name,
                     std::span<const std::byte> bytes) const;
  // Writes a file where there is none of that name; of several writers one succeeds. Not a failure
  // where another one did.
  Result<void> write_once(const std::string& name, std::span<const std::byte> bytes) const;
  // The first head.size() bytes of a file; false where there are not as many.
  bool read_head(const std::string& name, std::span<std::byte> head) const;

  // Names of at most `limit` files of a folder below; none where it cannot be read.
  std::vector<std::string> list(const std::string& folder, size_t limit) const;

  void remove(const std::string& name) const;

 private:
  std::string path_of(std::string_view name) const;
  Result<void> make_folders(const std::string& path) const;
  std::string path_;
  unsigned mode_;
};

}  // namespace kvik
