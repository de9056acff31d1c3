#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hub/download/file_download.h"
#include "hub/gguf_variants.h"
#include "hub/stores/stored_file.h"

namespace kvik {

// Hugging Face's cache folder:
//
//   models--ORG--REPO/blobs/HASH                 contents; HASH is the SHA-256, or the Git object
//   id
//                     refs/main                  the newest commit
//                     snapshots/COMMIT/FILE  →   ../../blobs/HASH
//   .locks/models--ORG--REPO/HASH.lock           held while a blob is downloaded
//
// huggingface_hub finds the files that Kvik downloads here, and Kvik finds those of its. Any
// thread.
class HfCache {
 public:
  explicit HfCache(std::string folder) : folder_(std::move(folder)) {}

  // Returns where a file of a repository is downloaded to.
  FilePlace place(const std::string& repository, const RepositoryFile& file) const;
  std::string snapshot_path(const std::string& repository, const std::string& commit,
                            const std::string& path) const;

  // Creates the links of a snapshot to downloaded blobs, in the order of `files`, and then
  // refs/main.
  Result<void> link(const std::string& repository, const std::string& commit,
                    const std::vector<RepositoryFile>& files) const;

  // Returns the models whose files are complete. Of several snapshots with the same model, that of
  // refs/main or the newest one counts.
  std::vector<StoredEntry> scan() const;

  // Returns whether a model of scan() consists of this file of a repository, among others.
  bool has_file(const StoredEntry& entry, const std::string& repository,
                const std::string& path) const;

  // Removes the links of a model in all snapshots, and its blobs to which no link is left. Errors:
  // kIo.
  Result<void> remove(const StoredEntry& entry) const;

 private:
  std::string repository_folder(const std::string& repository) const;

  std::string folder_;
};

}  // namespace kvik
