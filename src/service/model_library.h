#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace kvik {

// A model that is stored on this machine.
struct StoredModel {
  std::string name;  // as requests and `kvik run` name it: ORG/REPO:QUANT or MODEL:TAG
  std::string path;  // file or folder
  uint64_t n_bytes = 0;
  std::string digest;          // SHA-256 of the first file, in hex; empty: unknown
  int64_t modified = 0;        // seconds since 1970
  std::string format;          // gguf or safetensors
  std::string family;          // general.architecture or model_type
  std::string parameter_size;  // 1.5B; empty: unknown
  std::string quantization;    // Q4_K_M; empty: unknown
};

// The progress of a download.
struct PullProgress {
  std::string status;    // one line: pulling manifest, downloading FILE, verifying FILE, success
  std::string digest;    // of the file in progress; empty: none
  uint64_t n_done = 0;   // bytes of the file in progress
  uint64_t n_total = 0;  // bytes of the file in progress; 0: unknown
};

// The models stored on this machine: lists, downloads, copies and removes them. Any thread; pull()
// blocks until the download has ended.
class ModelLibrary {
 public:
  virtual ~ModelLibrary() = default;

  virtual Result<std::vector<StoredModel>> list() = 0;
  // Calls `on_progress` from time to time; the download stops when it returns false. What has been
  // downloaded stays and is resumed by the next pull. Errors: kNotFound, kInvalidArgument, kIo.
  virtual Result<StoredModel> pull(const std::string& name,
                                   const std::function<bool(const PullProgress&)>& on_progress) = 0;
  // Errors: kNotFound (names the model).
  virtual Result<void> remove(const std::string& name) = 0;
  virtual Result<void> copy(const std::string& from, const std::string& to) = 0;
};

}  // namespace kvik
