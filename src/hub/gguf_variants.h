#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvik {

// A file of a repository, on the hub or in the cache.
struct RepositoryFile {
  std::string path;  // in the repository
  uint64_t n_bytes = 0;
  std::string sha256 = {};  // in hex; empty: a small file without one
  std::string git_id = {};  // git_blob_id(); empty: unknown
};

// A GGUF model of a repository: one file, or the pieces of a split model in their order.
struct GgufVariant {
  std::string quant;  // in upper case, such as Q4_K_M or UD-Q4_K_XL; empty: not in the file's name
  std::vector<RepositoryFile> pieces;

  uint64_t n_bytes() const;
};

// Returns the quantization in the name of a file or of its folder; empty if there is none.
std::string quant_in_name(std::string_view path);

// Returns whether a GGUF file is no language model: a projector (mmproj), an importance matrix
// or the MTP layers of another file ("mtp-…").
bool is_sidecar(std::string_view path);

// Groups the GGUF files of a repository, sorted by quantization and path. Split models with missing
// pieces, and sidecars, are left out.
std::vector<GgufVariant> find_gguf_variants(const std::vector<RepositoryFile>& files);

// Returns the variant with this quantization (upper and lower case are equal, and "Q4_K_XL" means
// "UD-Q4_K_XL" if there is no other), or the usual choice for an empty one: Q4_K_M, else the first
// of a fixed list. Errors: kNotFound, listing the quantizations; kInvalidArgument if several files
// have this one, listing them. repository: for the messages.
Result<GgufVariant> choose_variant(const std::vector<GgufVariant>& variants,
                                   const std::string& quant, const std::string& repository);

// Returns the files of a safetensors model: tensors, config, tokenizer and template at the top of
// the repository, config.json last. Empty if there is no config.json or no tensor file.
std::vector<RepositoryFile> find_folder_files(const std::vector<RepositoryFile>& files);

}  // namespace kvik
