#include "base/file/private_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/log.h"

namespace kvik {
namespace {

constexpr mode_t kOthers = 0077;

std::unexpected<Error> failed(const char* what, const std::string& path) {
  return fail(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path, std::strerror(errno)));
}

bool is_usable(const std::string& path, const struct stat& there) {
  return S_ISREG(there.st_mode) && there.st_nlink == 1 && ::access(path.c_str(), R_OK | W_OK) == 0;
}

Result<void> rename_foreign_file(const std::string& path) {
  for (unsigned i = 0; i < 1000; ++i) {
    const std::string name = fmt::format("{}.aside-{}", path, i);
    struct stat taken {};
    if (::lstat(name.c_str(), &taken) == 0) continue;
    if (::rename(path.c_str(), name.c_str()) != 0) return failed("rename", path);
    log::warn("'{}' was not written by Kvik; it was renamed to '{}'", path, name);
    return {};
  }
  return fail(ErrorCode::kIo,
              fmt::format("cannot rename '{}': too many renamed files are there", path));
}

}  // namespace

Result<void> make_private_folders(const std::string& path) {
  std::string made;
  for (const auto& part : std::filesystem::path(path)) {
    made = (std::filesystem::path(made) / part).string();
    std::error_code ignored;
    if (part.empty() || std::filesystem::exists(made, ignored)) continue;
    if (::mkdir(made.c_str(), kPrivateFolder) != 0 && errno != EEXIST) {
      return failed("create the folder", made);
    }
  }
  return {};
}

Result<void> prepare_private_file(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return {};
    return failed("look at", path);
  }
  if (!is_usable(path, there)) return rename_foreign_file(path);
  if ((there.st_mode & kOthers) != 0 && ::chmod(path.c_str(), kPrivateFile) != 0) {
    return failed("restrict the permissions of", path);
  }
  return {};
}

}  // namespace kvik
