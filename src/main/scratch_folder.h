#pragma once

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/result.h"

namespace kvik {

// A folder of this process alone, which is removed with its files at the end.
class ScratchFolder {
 public:
  // Makes a folder whose path begins with `prefix`. Errors: kIo.
  static Result<ScratchFolder> make(const std::string& prefix) {
    std::string path = prefix + "XXXXXX";
    if (::mkdtemp(path.data())) return ScratchFolder(std::move(path));
    return fail(ErrorCode::kIo,
                fmt::format("cannot create a folder '{}': {}", path, std::strerror(errno)));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace kvik
