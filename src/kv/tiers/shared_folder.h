#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"

namespace kvik {

// Files of a folder that several machines mount: written beside their place and renamed into it, so
// that whoever opens one sees all of it or nothing; never changed after. What else lies there
// (folders, links, pipes, files of another length) is as if it were not there.
class SharedFolder {
 public:
  explicit SharedFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  enum class Read { kDone, kAbsent, kWrong, kFailed };
  // Reads a file that must be bytes.size() long. Its time of change tells others that it is used:
  // renewed by the file system's own clock where it is older than an hour of ours.
  Read read(const std::string& name, std::span<std::byte> bytes) const;

  // Writes a file in a folder below, which is made where there is none, in the place of one that is
  // there.
  Result<void> write(const std::string& folder, const std::string& name,
                     std::span<const std::byte> bytes) const;
  // The first head.size() bytes of a file; false where there are not as many.
  bool read_head(const std::string& name, std::span<std::byte> head) const;

  // Names of at most `limit` files of a folder below; none where it cannot be read.
  std::vector<std::string> list(const std::string& folder, size_t limit) const;

  void remove(const std::string& name) const;

 private:
  std::string path_of(std::string_view name) const;
  std::string path_;
};

// Token ids as a name of a file, and back; std::nullopt where it is none. Base 64 with '-' and '_'.
std::string name_of_tokens(std::span<const TokenId> tokens);
std::optional<std::vector<TokenId>> tokens_of_name(std::string_view name);

}  // namespace kvik
