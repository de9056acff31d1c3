#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "hub/download/file_download.h"
#include "hub/model_name.h"
#include "hub/stores/stored_file.h"

namespace kvik {

// GGUF files downloaded by URL: https://HOST/PATH/FILE.gguf is
// FOLDER/urls/https/HOST/PATH/FILE.gguf. Any thread.
class UrlStore {
 public:
  explicit UrlStore(std::string folder) : folder_(std::move(folder)) {}

  FilePlace place(const ModelName& name) const;
  // Returns the complete files. Split models need all pieces.
  std::vector<StoredEntry> scan() const;
  // Errors: kIo.
  Result<void> remove(const StoredEntry& entry) const;

 private:
  std::string folder_;
};

}  // namespace kvik
