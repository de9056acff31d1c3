#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "hub/hub_options.h"
#include "hub/stores/hf_cache.h"
#include "hub/stores/ollama_store.h"
#include "hub/stores/short_names.h"
#include "hub/stores/url_store.h"
#include "service/model_library.h"

namespace kvik {

// Name and path of a stored model.
struct StoredPath {
  std::string name, path;
};

// The models stored on this machine, in all cache folders. Any thread.
class ModelStore {
 public:
  explicit ModelStore(HubOptions options);

  const HubOptions& options() const { return options_; }
  const HfCache& hf_cache() const { return hf_cache_; }
  const OllamaStore& ollama() const { return ollama_; }
  const UrlStore& urls() const { return urls_; }

  // Returns all models, and the short names as models of their own, sorted by name.
  std::vector<StoredModel> list();
  // Returns names and paths of the same models without reading the models' headers.
  std::vector<StoredPath> paths() const;
  // Returns a value that changes when a model is added, removed or named by Kvik, in any process.
  // Takes one stat(2).
  std::string version() const;
  // Changes the version. A failure is logged.
  void mark_changed() const;
  // Finds a model by a stored or short name. The case of a quantization is ignored, and a name
  // without one means the usual quantization of those stored. std::nullopt if there is none.
  std::optional<StoredModel> find(const std::string& name);

  // Removes a model and its short names, or only a short name. Errors: kNotFound, kIo;
  // kInvalidArgument for a repository of which several models are stored.
  Result<void> remove(const std::string& name);
  // Gives a stored model a short name. Errors: kNotFound; kInvalidArgument for a short name that is
  // malformed or the name of a stored model; kIo.
  Result<void> copy(const std::string& from, const std::string& to);

 private:
  std::vector<StoredEntry> scan() const;
  std::optional<StoredEntry> find_entry(const std::string& name) const;
  Result<void> check_is_one(const std::string& name, const StoredEntry& entry) const;
  StoredModel describe(const StoredEntry& entry);
  void read_file_facts(const StoredEntry& entry, StoredModel& model);

  const HubOptions options_;
  const HfCache hf_cache_;
  const OllamaStore ollama_;
  const UrlStore urls_;
  const ShortNames short_names_;

  // Facts from the header of a file, which takes milliseconds to read.
  struct FileFactsKey {
    std::string path;
    uint64_t n_bytes;
    int64_t modified;
    auto operator<=>(const FileFactsKey&) const = default;
  };
  struct HeaderFacts {
    std::string family, parameter_size;
  };
  Mutex mutex_;
  std::map<FileFactsKey, HeaderFacts> header_facts_ GUARDED_BY(mutex_);
};

}  // namespace kvik
