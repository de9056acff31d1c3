#include "hub/stores/hf_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/file/atomic_file.h"
#include "base/json/json.h"
#include "hub/download/file_lock.h"
#include "hub/model_name.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "models--";
constexpr size_t kMaxFiles = 20'000;  // of a snapshot
constexpr int kMaxDepth = 6;

const std::string& blob_name(const RepositoryFile& file) {
  return file.sha256.empty() ? file.git_id : file.sha256;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    paths.push_back(it->path());
    if (paths.size() >= kMaxFiles) break;
  }
  std::ranges::sort(paths);
  return paths;
}

int64_t modification_time(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? static_cast<int64_t>(about.st_mtime) : 0;
}

// Adds the regular files of a snapshot, following links.
void list_files(const fs::path& folder, const std::string& prefix, int depth,
                std::vector<RepositoryFile>& files) {
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = prefix + path.filename().string();
    struct stat about {};
    if (files.size() >= kMaxFiles || ::stat(path.c_str(), &about) != 0) continue;
    if (S_ISDIR(about.st_mode) && depth < kMaxDepth) list_files(path, name + "/", depth + 1, files);
    if (!S_ISREG(about.st_mode)) continue;
    std::error_code error;
    const std::string blob = fs::read_symlink(path, error).filename().string();
    files.push_back({.path = name,
                     .n_bytes = static_cast<uint64_t>(about.st_size),
                     .sha256 = is_hex(blob, 64) ? blob : "",
                     .git_id = is_hex(blob, 40) ? blob : ""});
  }
}

// Returns whether a folder has config.json and all files of tensors.
bool is_whole_folder(const fs::path& folder, const std::vector<RepositoryFile>& files) {
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(files,
                               [&](const RepositoryFile& file) { return file.path == name; });
  };
  if (!has("config.json")) return false;
  if (!has("model.safetensors.index.json")) return has("model.safetensors");
  constexpr size_t kMaxIndexBytes = size_t{16} << 20;
  const auto text = read_whole((folder / "model.safetensors.index.json").string(), kMaxIndexBytes);
  if (!text) return false;
  const auto index = parse_json(*text, {.max_bytes = kMaxIndexBytes, .max_values = 2'000'000});
  const Json* const map = index ? index->find("weight_map") : nullptr;
  if (map == nullptr || map->size() == 0) return false;
  return std::ranges::all_of(map->fields(),
                             [&](const Json::Field& field) { return has(field.data.text()); });
}

// Returns the snapshots of a repository, the preferred one first.
std::vector<fs::path> snapshots_of(const fs::path& repository) {
  std::vector<fs::path> snapshots = entries_of(repository / "snapshots");
  const auto main = read_whole((repository / "refs/main").string(), 4096);
  std::ranges::stable_sort(snapshots, [&](const fs::path& a, const fs::path& b) {
    const auto rank = [&](const fs::path& path) {
      return std::pair(main && path.filename() == *main ? 0 : 1, -modification_time(path.string()));
    };
    return rank(a) < rank(b);
  });
  return snapshots;
}

StoredEntry entry_of(const fs::path& snapshot, const std::string& name,
                     const std::vector<RepositoryFile>& files) {
  StoredEntry entry{.origin = StoredEntry::Origin::kHuggingFace,
                    .name = name,
                    .path = (snapshot / files.front().path).string()};
  entry.digest = files.front().sha256;
  for (const RepositoryFile& file : files) {
    const std::string path = (snapshot / file.path).string();
    entry.n_bytes += file.n_bytes;
    entry.modified = std::max(entry.modified, modification_time(path));
    entry.files.push_back(path);
  }
  return entry;
}

void scan_snapshot(const fs::path& snapshot, const std::string& repository,
                   std::vector<StoredEntry>& entries) {
  std::vector<RepositoryFile> files;
  list_files(snapshot, "", 0, files);
  const auto variants = find_gguf_variants(files);
  for (const GgufVariant& variant : variants) {
    const auto n_same = std::ranges::count(variants, variant.quant, &GgufVariant::quant);
    const std::string name = variant.quant.empty() || n_same > 1
                                 ? fmt::format("{}/{}", repository, variant.pieces.front().path)
                                 : fmt::format("{}:{}", repository, variant.quant);
    entries.push_back(entry_of(snapshot, name, variant.pieces));
    entries.back().quant = variant.quant;
  }
  if (!is_whole_folder(snapshot, files)) return;
  auto folder_files = find_folder_files(files);
  if (folder_files.empty()) return;
  const auto tensors = std::ranges::find_if(
      folder_files, [](const auto& file) { return file.path.ends_with(".safetensors"); });
  StoredEntry entry =
      entry_of(snapshot, variants.empty() ? repository : repository + ":safetensors", folder_files);
  entry.path = snapshot.string();
  entry.is_folder = true;
  entry.digest = tensors->sha256;
  entries.push_back(std::move(entry));
}

void remove_empty_folders(fs::path folder, const fs::path& until) {
  std::error_code error;
  for (; folder != until && fs::is_empty(folder, error) && !error; folder = folder.parent_path()) {
    if (!fs::remove(folder, error)) return;
  }
}

}  // namespace

Result<void> remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return fail(ErrorCode::kIo, fmt::format("cannot remove '{}': {}", path, std::strerror(errno)));
}

std::string HfCache::repository_folder(const std::string& repository) const {
  std::string name = repository;
  const size_t slash = name.find('/');
  if (slash != std::string::npos) name.replace(slash, 1, "--");
  return fmt::format("{}/{}{}", folder_, kModelPrefix, name);
}

FilePlace HfCache::place(const std::string& repository, const RepositoryFile& file) const {
  const std::string folder = repository_folder(repository);
  const std::string path = fmt::format("{}/blobs/{}", folder, blob_name(file));
  return {.path = path,
          .part_path = path + std::string(kPartSuffix),
          .lock_path = fmt::format("{}/.locks/{}/{}.lock", folder_,
                                   fs::path(folder).filename().string(), blob_name(file))};
}

std::string HfCache::snapshot_path(const std::string& repository, const std::string& commit,
                                   const std::string& path) const {
  return fmt::format("{}/snapshots/{}/{}", repository_folder(repository), commit, path);
}

Result<void> HfCache::link(const std::string& repository, const std::string& commit,
                           const std::vector<RepositoryFile>& files) const {
  for (const RepositoryFile& file : files) {
    const std::string link = snapshot_path(repository, commit, file.path);
    TRY(make_folders(fs::path(link).parent_path().string()));
    std::string target = "../../blobs/" + blob_name(file);
    for (const char c : file.path) target.insert(0, c == '/' ? "../" : "");
    std::error_code error;
    if (fs::read_symlink(link, error) == target && !error) continue;
    TRY(remove_file(link));
    if (::symlink(target.c_str(), link.c_str()) != 0 && errno != EEXIST) {
      return fail(ErrorCode::kIo,
                  fmt::format("cannot create the link '{}': {}", link, std::strerror(errno)));
    }
  }
  const std::string refs = repository_folder(repository) + "/refs";
  TRY(make_folders(refs));
  return write_atomically(refs + "/main", commit, 0666);
}

std::vector<StoredEntry> HfCache::scan() const {
  std::vector<StoredEntry> entries;
  for (const fs::path& folder : entries_of(folder_)) {
    const std::string folder_name = folder.filename().string();
    if (!folder_name.starts_with(kModelPrefix)) continue;
    std::string repository = folder_name.substr(kModelPrefix.size());
    if (const size_t dashes = repository.find("--"); dashes != std::string::npos)
      repository.replace(dashes, 2, "/");
    if (!is_safe_path(repository)) continue;
    std::vector<StoredEntry> found;
    for (const fs::path& snapshot : snapshots_of(folder))
      scan_snapshot(snapshot, repository, found);
    for (StoredEntry& entry : found) {
      const auto same = std::ranges::find(entries, entry.name, &StoredEntry::name);
      if (same == entries.end()) {
        entries.push_back(std::move(entry));
      } else {  // of another snapshot; removed together
        same->files.insert(same->files.end(), entry.files.begin(), entry.files.end());
      }
    }
  }
  return entries;
}

Result<void> HfCache::remove(const StoredEntry& entry) const {
  if (entry.files.empty()) return {};
  // The path of a file is FOLDER/models--ORG--REPO/snapshots/COMMIT/FILE.
  const fs::path below = fs::path(entry.files.front()).lexically_relative(folder_);
  const fs::path repository = fs::path(folder_) / *below.begin();
  std::set<std::string> candidates;
  for (const std::string& file : entry.files) {
    std::error_code error;
    const std::string blob = fs::read_symlink(file, error).filename().string();
    if (!error && (is_hex(blob, 64) || is_hex(blob, 40))) candidates.insert(blob);
    TRY(remove_file(file));
    remove_empty_folders(fs::path(file).parent_path(), repository / "snapshots");
  }
  bool has_files = false;
  for (const fs::path& snapshot : entries_of(repository / "snapshots")) {
    std::vector<RepositoryFile> files;
    list_files(snapshot, "", 0, files);
    has_files = has_files || !files.empty();
    for (const RepositoryFile& file : files) candidates.erase(blob_name(file));
  }
  for (const std::string& blob : candidates)
    TRY(remove_file((repository / "blobs" / blob).string()));
  // Blobs without a link belong to downloads that have not ended.
  if (has_files || !entries_of(repository / "blobs").empty()) return {};
  std::error_code error;
  fs::remove_all(repository, error);
  if (!error) return {};
  return fail(ErrorCode::kIo,
              fmt::format("cannot remove '{}': {}", repository.string(), error.message()));
}

bool HfCache::has_file(const StoredEntry& entry, const std::string& repository,
                       const std::string& path) const {
  const std::string snapshots = repository_folder(repository) + "/snapshots/";
  return std::ranges::any_of(entry.files, [&](std::string_view file) {
    if (!file.starts_with(snapshots)) return false;
    file.remove_prefix(snapshots.size());
    return file.substr(file.find('/') + 1) == path;
  });
}

}  // namespace kvik
