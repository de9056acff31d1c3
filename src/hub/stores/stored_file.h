#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvik {

// A model found in a cache folder, all of whose files are there.
struct StoredEntry {
  enum class Origin { kHuggingFace, kOllama, kUrl };
  Origin origin = Origin::kHuggingFace;
  std::string name;        // StoredModel::name
  std::string path;        // first GGUF file, or folder
  std::string quant = {};  // by its name; empty: unknown
  std::string digest = {};
  uint64_t n_bytes = 0;
  int64_t modified = 0;  // seconds since 1970
  bool is_folder = false;
  std::vector<std::string> files = {};  // paths to remove: links, manifests or files
};

// Removes a file if it exists. Errors: kIo.
Result<void> remove_file(const std::string& path);

}  // namespace kvik
