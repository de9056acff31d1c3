#include "hub/stores/unfinished.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "hub/download/file_download.h"
#include "hub/download/file_lock.h"
#include "hub/stores/stored_file.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

// Returns the path of the lock of a download, given the path of the file without the suffix of an
// unfinished one.
using LockOf = std::function<std::string(const fs::path& file)>;

void add_unfinished(const fs::path& folder, const LockOf& lock_of,
                    std::vector<UnfinishedFile>& files) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::string path = it->path().string();
    struct stat about {};
    if (!path.ends_with(kPartSuffix) || ::lstat(path.c_str(), &about) != 0) continue;
    if (!S_ISREG(about.st_mode)) continue;
    const fs::path file = path.substr(0, path.size() - kPartSuffix.size());
    files.push_back({.path = std::move(path),
                     .lock_path = lock_of(file),
                     .disk_bytes = static_cast<uint64_t>(about.st_blocks) * 512});
  }
}

}  // namespace

std::vector<UnfinishedFile> find_unfinished(const HubOptions& options) {
  std::vector<UnfinishedFile> files;
  std::error_code error;
  for (fs::directory_iterator it(options.hf_cache, error), end; !error && it != end;
       it.increment(error)) {
    const std::string repository = it->path().filename().string();
    if (!repository.starts_with("models--")) continue;
    add_unfinished(
        it->path() / "blobs",
        [&](const fs::path& file) {
          return fmt::format("{}/.locks/{}/{}.lock", options.hf_cache, repository,
                             file.filename().string());
        },
        files);
  }
  add_unfinished(
      options.ollama_models + "/blobs",
      [&](const fs::path& file) {
        return fmt::format("{}/locks/{}.lock", options.kvik_models, file.filename().string());
      },
      files);
  add_unfinished(
      options.kvik_models + "/urls", [](const fs::path& file) { return file.string() + ".lock"; },
      files);
  return files;
}

Result<uint64_t> remove_unfinished(const HubOptions& options) {
  uint64_t n_bytes = 0;
  for (const UnfinishedFile& file : find_unfinished(options)) {
    TRY_ASSIGN(const auto lock, FileLock::try_lock(file.lock_path));
    if (!lock) continue;  // in progress
    TRY(remove_file(file.path));
    n_bytes += file.disk_bytes;
  }
  return n_bytes;
}

}  // namespace kvik
