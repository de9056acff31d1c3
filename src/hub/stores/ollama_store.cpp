#include "hub/stores/ollama_store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file/atomic_file.h"
#include "hub/download/file_lock.h"

namespace kvik {
namespace {

namespace fs = std::filesystem;

// Folder of the default registry's manifests.
constexpr std::string_view kOllamaHost = "registry.ollama.ai";
constexpr size_t kMaxManifests = 10'000;

struct StoredManifest {
  std::string path;
  std::string host, space, model, tag;
};

struct ManifestList {
  std::vector<StoredManifest> manifests;
  bool is_complete = true;  // there are no others
};

// Returns the manifests: files four folders below `folder`.
ManifestList list_manifests(const fs::path& folder) {
  ManifestList list;
  std::vector<StoredManifest>& manifests = list.manifests;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const fs::path below = it->path().lexically_relative(folder);
    const auto n_parts = std::distance(below.begin(), below.end());
    std::error_code ignored;
    if (n_parts > 4) it.disable_recursion_pending();
    if (n_parts != 4 || !it->is_regular_file(ignored)) continue;
    auto part = below.begin();
    StoredManifest manifest{.path = it->path().string(),
                            .host = (part++)->string(),
                            .space = (part++)->string(),
                            .model = (part++)->string(),
                            .tag = part->string()};
    const bool is_safe = is_safe_path(below.string());
    list.is_complete = list.is_complete && is_safe && manifests.size() < kMaxManifests;
    if (is_safe) manifests.push_back(std::move(manifest));
    if (manifests.size() > kMaxManifests) break;
  }
  list.is_complete = list.is_complete && !error;
  std::ranges::sort(manifests, {}, &StoredManifest::path);
  return list;
}

std::string name_of_manifest(const StoredManifest& manifest) {
  std::string name = fmt::format("{}:{}", manifest.model, manifest.tag);
  if (manifest.host != kOllamaHost)
    return fmt::format("{}/{}/{}", manifest.host, manifest.space, name);
  return manifest.space == "library" ? name : fmt::format("{}/{}", manifest.space, name);
}

Result<OllamaManifest> read_manifest(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_whole(path, OllamaManifest::kMaxBytes));
  return parse_ollama_manifest(text);
}

}  // namespace

std::string OllamaStore::blob_path(const std::string& sha256) const {
  return fmt::format("{}/blobs/sha256-{}", folder_, sha256);
}

FilePlace OllamaStore::place(const OllamaManifest::Layer& layer) const {
  const std::string path = blob_path(layer.sha256);
  return {.path = path,
          .part_path = path + std::string(kPartSuffix),
          .lock_path = fmt::format("{}/sha256-{}.lock", locks_, layer.sha256)};
}

Result<void> OllamaStore::add(const ModelName& name, const std::string& manifest) const {
  const std::string folder =
      fmt::format("{}/manifests/{}/{}/{}", folder_, kOllamaHost, name.space, name.model);
  TRY(make_folders(folder));
  return write_atomically(fmt::format("{}/{}", folder, name.tag), manifest, 0644);
}

std::vector<StoredEntry> OllamaStore::scan() const {
  std::vector<StoredEntry> entries;
  for (const StoredManifest& stored : list_manifests(folder_ + "/manifests").manifests) {
    const auto manifest = read_manifest(stored.path);
    if (!manifest) continue;
    StoredEntry entry{.origin = StoredEntry::Origin::kOllama,
                      .name = name_of_manifest(stored),
                      .path = blob_path(manifest->model().sha256),
                      .digest = manifest->model().sha256,
                      .files = {stored.path}};
    const bool is_whole =
        std::ranges::all_of(manifest->layers, [&](const OllamaManifest::Layer& layer) {
          struct stat about {};
          entry.n_bytes += layer.n_bytes;
          return ::stat(blob_path(layer.sha256).c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
                 static_cast<uint64_t>(about.st_size) == layer.n_bytes;
        });
    struct stat about {};
    if (!is_whole || ::stat(stored.path.c_str(), &about) != 0) continue;
    entry.modified = static_cast<int64_t>(about.st_mtime);
    entries.push_back(std::move(entry));
  }
  return entries;
}

OllamaConfig OllamaStore::config_of(const StoredEntry& entry) const {
  const auto manifest = read_manifest(entry.files.front());
  if (!manifest) return {};
  const auto text = read_whole(blob_path(manifest->config().sha256), OllamaManifest::kMaxBytes);
  return text ? parse_ollama_config(*text) : OllamaConfig{};
}

Result<void> OllamaStore::remove(const StoredEntry& entry) const {
  const auto manifest = read_manifest(entry.files.front());
  TRY(remove_file(entry.files.front()));
  std::error_code ignored;
  fs::remove(fs::path(entry.files.front()).parent_path(), ignored);  // fails if it has other tags
  if (!manifest) return {};
  std::set<std::string> unused;
  for (const OllamaManifest::Layer& layer : manifest->layers) unused.insert(layer.sha256);
  const ManifestList others = list_manifests(folder_ + "/manifests");
  if (!others.is_complete) return {};  // another one may need any blob
  for (const StoredManifest& other : others.manifests) {
    const auto layers = read_manifest(other.path);
    if (!layers) return {};  // it may need any blob
    for (const OllamaManifest::Layer& layer : layers->layers) unused.erase(layer.sha256);
  }
  for (const std::string& sha256 : unused) TRY(remove_file(blob_path(sha256)));
  return {};
}

Result<std::string> find_ollama_manifest(HttpSession& session, const ModelName& name,
                                         const HubOptions& options, const KeepGoing& keep_going) {
  const std::string url = fmt::format("{}/v2/{}/{}/manifests/{}", options.ollama_registry,
                                      name.space, name.model, name.tag);
  TRY_ASSIGN(
      HttpBody body,
      http_get(session,
               {.url = url, .accept = "application/vnd.docker.distribution.manifest.v2+json"},
               OllamaManifest::kMaxBytes, keep_going));
  if (body.reply.status == 401 || body.reply.status == 403) {
    return fail(
        ErrorCode::kNotFound,
        fmt::format("Ollama's registry answers {} for '{}': it does not exist or is private",
                    body.reply.status, name.text()));
  }
  if (body.reply.status != 200) return std::unexpected(status_error(body.reply, name.text()));
  return std::move(body.bytes);
}

std::string ollama_blob_url(const HubOptions& options, const ModelName& name,
                            const std::string& sha256) {
  return fmt::format("{}/v2/{}/{}/blobs/sha256:{}", options.ollama_registry, name.space, name.model,
                     sha256);
}

}  // namespace kvik
