#include "format/hf/tensor_files.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "base/file/input_file.h"
#include "base/json/json_object.h"
#include "base/quantity.h"
#include "format/joined_files.h"
#include "format/quoted.h"
#include "format/safetensors.h"

namespace kvik::hf {
namespace {

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kEnding = ".safetensors";
constexpr size_t kMaxFiles = 4096;
constexpr size_t kMaxIndexBytes = size_t{32} << 20;

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool is_plain_name(std::string_view name) {
  return name.ends_with(kEnding) && name.size() <= 255 && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// Checks that the file has exactly the tensors that the index lists.
Result<void> check_file(const ModelSource& file, std::set<std::string> wanted) {
  for (const TensorInfo& tensor : file.tensors()) {
    if (wanted.erase(tensor.name) == 1) continue;
    return fail(ErrorCode::kCorrupt, fmt::format("'{}' has tensor {}, which {} does not expect "
                                                 "there",
                                                 file.label(), kvik::quoted(tensor.name), kIndex));
  }
  if (wanted.empty()) return {};
  return fail(ErrorCode::kCorrupt,
              fmt::format("'{}' lacks tensor {}, which {} expects there", file.label(),
                          kvik::quoted(*wanted.begin()), kIndex));
}

Result<std::unique_ptr<ModelSource>> open_indexed(const std::string& folder) {
  TRY_ASSIGN(const auto json, read_text_file(fmt::format("{}/{}", folder, kIndex), kMaxIndexBytes));
  TRY_ASSIGN(TensorIndex index, read_tensor_index(json.value_or("")));
  std::vector<std::unique_ptr<ModelSource>> files;
  const SpareRegion spare = make_spare_region();
  for (auto& [name, tensors] : index) {
    TRY_ASSIGN(auto file, open_safetensors(fmt::format("{}/{}", folder, name), spare));
    TRY(check_file(*file, std::move(tensors)));
    files.push_back(std::move(file));
  }
  return join_files(std::move(files));
}

}  // namespace

Result<std::optional<std::string>> read_text_file(const std::string& path, size_t max_bytes) {
  if (!exists(path)) return std::optional<std::string>();
  TRY_ASSIGN(const InputFile file, InputFile::open(path));
  if (file.size() > max_bytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' has {}, expected at most {}", path, format_bytes(file.size()),
                            format_bytes(max_bytes)));
  }
  std::string text(file.size(), '\0');
  TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return std::optional(std::move(text));
}

Result<TensorIndex> read_tensor_index(std::string_view json) {
  TRY_ASSIGN(const auto parsed, parse_json_file(json, kIndex));
  TRY_ASSIGN(const auto whole, JsonObject::of(parsed, kIndex));
  TRY_ASSIGN(const auto map, whole.object("weight_map"));
  if (!map || map->all().empty()) return whole.unexpected_value("weight_map", "files of tensors");
  TensorIndex index;
  for (const auto& member : map->all()) {
    const std::string_view tensor(member.key().data(), member.key().size());
    const boost::json::string* file = member.value().if_string();
    if (!file || !is_plain_name(std::string_view(file->data(), file->size()))) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("{}: the file of tensor {} is {}, expected the name of a {} file in "
                      "the same folder",
                      kIndex, kvik::quoted(tensor),
                      file ? kvik::quoted(std::string_view(file->data(), file->size())) : "no text",
                      kEnding));
    }
    index[std::string(*file)].emplace(tensor);
  }
  if (index.size() <= kMaxFiles) return index;
  return fail(ErrorCode::kCorrupt, fmt::format("{} names {} files, expected at most {}", kIndex,
                                               index.size(), kMaxFiles));
}

Result<std::unique_ptr<ModelSource>> open_tensor_files(const std::string& folder) {
  const std::string whole = fmt::format("{}/{}", folder, kWhole);
  if (exists(whole)) return open_safetensors(whole);
  if (exists(fmt::format("{}/{}", folder, kIndex))) return open_indexed(folder);
  return fail(ErrorCode::kNotFound,
              fmt::format("'{}' has neither {} nor {}, expected one of them: weights in other "
                          "files are not read",
                          folder, kWhole, kIndex));
}

}  // namespace kvik::hf
