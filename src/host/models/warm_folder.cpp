#include "host/models/warm_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMemoryFolder = "/dev/shm";
constexpr std::string_view kPrefix = "kvik-warm-";

// Opens a folder of this user and locks it; not open if that fails. A router holds the lock on its
// folder as long as it runs: process ids repeat in containers that share /dev/shm.
FileDescriptor lock_folder(const std::string& path) {
  struct stat status {};
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const bool is_locked = folder.is_open() && fstat(folder.get(), &status) == 0 &&
                         status.st_uid == getuid() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
  return is_locked ? std::move(folder) : FileDescriptor();
}

}  // namespace

WarmFolder::WarmFolder() {
  std::error_code error;
  const std::string own_prefix = fmt::format("{}{}-", kPrefix, getuid());
  for (const auto& entry : fs::directory_iterator(kMemoryFolder, error)) {
    if (!entry.path().filename().string().starts_with(own_prefix)) continue;
    std::error_code ignored;
    if (lock_folder(entry.path()).is_open()) fs::remove_all(entry.path(), ignored);
  }
  // A router that starts at the same moment may lock and remove the folder before this one does.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && !lock_.is_open(); ++i) {
    path_ = fmt::format("{}/{}{}-XXXXXX", kMemoryFolder, own_prefix, getpid());
    if (!mkdtemp(path_.data())) break;
    lock_ = lock_folder(path_);
    if (!fs::exists(path_, error)) lock_ = FileDescriptor();
  }
  if (lock_.is_open()) return;
  log::warn("KV pages of unloaded models are not kept: {}: {}", path_, std::strerror(errno));
  path_.clear();
}

WarmFolder::~WarmFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace kvik
