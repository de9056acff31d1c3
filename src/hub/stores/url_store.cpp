#include "hub/stores/url_store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "hub/gguf_variants.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxUrlFiles = 10'000;

}  // namespace

FilePlace UrlStore::place(const ModelName& name) const {
  std::string below = name.text();  // SCHEME://HOST/PATH
  below.replace(below.find("://"), 3, "/");
  const std::string path = fmt::format("{}/urls/{}", folder_, below);
  return {.path = path, .part_path = path + std::string(kPartSuffix), .lock_path = path + ".lock"};
}

std::vector<StoredEntry> UrlStore::scan() const {
  const fs::path root = folder_ + "/urls";
  std::vector<RepositoryFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::string below = it->path().lexically_relative(root).string();
    if (it.depth() > 20) it.disable_recursion_pending();
    if (!it->is_regular_file(ignored) || !below.ends_with(".gguf") || !is_safe_path(below))
      continue;
    files.push_back({.path = below, .n_bytes = it->file_size(ignored)});
    if (files.size() >= kMaxUrlFiles) break;
  }
  std::ranges::sort(files, {}, &RepositoryFile::path);
  std::vector<StoredEntry> entries;
  for (const GgufVariant& variant : find_gguf_variants(files)) {
    const std::string& below = variant.pieces.front().path;
    const size_t slash = below.find('/');
    if (slash == std::string::npos) continue;
    StoredEntry entry{
        .origin = StoredEntry::Origin::kUrl,
        .name = fmt::format("{}://{}", below.substr(0, slash), below.substr(slash + 1)),
        .path = (root / below).string(),
        .quant = variant.quant,
        .n_bytes = variant.n_bytes()};
    for (const RepositoryFile& piece : variant.pieces) {
      struct stat about {};
      entry.files.push_back((root / piece.path).string());
      if (::stat(entry.files.back().c_str(), &about) == 0)
        entry.modified = std::max(entry.modified, static_cast<int64_t>(about.st_mtime));
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<void> UrlStore::remove(const StoredEntry& entry) const {
  for (const std::string& file : entry.files) {
    TRY(remove_file(file));
    TRY(remove_file(file + ".lock"));
    std::error_code error;
    const fs::path root = folder_ + "/urls";
    for (fs::path folder = fs::path(file).parent_path();
         folder != root && fs::remove(folder, error); folder = folder.parent_path()) {
    }
  }
  return {};
}

}  // namespace kvik
