#include "format/hf/folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "format/hf/config.h"
#include "format/hf/encoder.h"
#include "format/hf/modules/dense.h"
#include "format/hf/modules/reranker.h"
#include "format/hf/tensor_files.h"
#include "format/hf/tensor_names.h"
#include "format/hf/vocabulary_files.h"
#include "format/quoted.h"

namespace kvik::hf {
namespace {

constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// Returns the error of a folder without config.json. The hub's cache has the files of a repository
// in a sub-folder per revision.
std::string no_config(const std::string& path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path + "/snapshots", ignored)) {
    if (!std::filesystem::exists(entry.path() / "config.json", ignored)) continue;
    return fmt::format(
        "this is a folder of the Hugging Face cache; pass one of its snapshots, such as {}",
        quoted("snapshots/" + entry.path().filename().string()));
  }
  return "there is no config.json, expected a folder of Hugging Face";
}

Result<std::unique_ptr<ModelSource>> open(const std::string& path) {
  TRY_ASSIGN(const auto json, read_text_file(fmt::format("{}/config.json", path), kMaxConfigBytes));
  if (!json) return fail(ErrorCode::kNotFound, no_config(path));
  TRY_ASSIGN(FolderConfig config, read_folder_config(*json));
  TRY(add_pooling(path, config, config.metadata));
  TRY(add_vocabulary(path, config, config.metadata));
  TRY(add_reranker(path, *json, config));
  TRY_ASSIGN(auto source, open_tensor_files(path));
  TRY_ASSIGN(source, with_dense_modules(path, std::move(source), config));
  TRY(arrange_folder(*source, path, std::move(config)));
  return source;
}

}  // namespace

Result<std::unique_ptr<ModelSource>> open_folder(const std::string& path) {
  auto source = open(path);
  if (source) return source;
  return fail(source.error().code, fmt::format("'{}': {}", path, source.error().message));
}

}  // namespace kvik::hf
