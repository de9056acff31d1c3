#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "hub/download/file_download.h"
#include "hub/model_name.h"
#include "hub/stores/ollama_manifest.h"
#include "hub/stores/stored_file.h"

namespace kvik {

// Ollama's folder of models: blobs/sha256-HASH and manifests/HOST/NAMESPACE/MODEL/TAG. Any thread.
class OllamaStore {
 public:
  // locks: folder of the locks of downloads.
  OllamaStore(std::string folder, std::string locks)
      : folder_(std::move(folder)), locks_(std::move(locks)) {}

  FilePlace place(const OllamaManifest::Layer& layer) const;
  std::string blob_path(const std::string& sha256) const;

  // Writes the manifest of a model. Its layers must have been downloaded.
  Result<void> add(const ModelName& name, const std::string& manifest) const;

  // Returns the models whose manifest is valid and whose layers are complete.
  std::vector<StoredEntry> scan() const;
  // Returns the config of a model of scan(); empty if it cannot be read.
  OllamaConfig config_of(const StoredEntry& entry) const;

  // Removes a manifest, and the blobs that no other manifest lists. Errors: kIo.
  Result<void> remove(const StoredEntry& entry) const;

 private:
  std::string folder_, locks_;
};

// Requests the manifest of a model, as text. Errors: kNotFound, kIo.
Result<std::string> find_ollama_manifest(HttpSession& session, const ModelName& name,
                                         const HubOptions& options, const KeepGoing& keep_going);
// Returns the URL of a layer.
std::string ollama_blob_url(const HubOptions& options, const ModelName& name,
                            const std::string& sha256);

}  // namespace kvik
