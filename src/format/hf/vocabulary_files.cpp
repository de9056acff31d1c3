#include "format/hf/vocabulary_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/lfs_pointer.h"
#include "base/json/json_object.h"
#include "format/hf/tensor_files.h"

namespace kvik::hf {
namespace {

constexpr size_t kMaxVocabularyBytes = size_t{128} << 20;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// Reads a JSON file of the folder; std::nullopt if there is none.
Result<std::optional<boost::json::value>> read_json(const std::string& folder, const char* name) {
  TRY_ASSIGN(const auto text, read_text_file(fmt::format("{}/{}", folder, name), kMaxConfigBytes));
  if (!text) return std::optional<boost::json::value>();
  TRY_ASSIGN(auto parsed, parse_json_file(*text, name));
  return std::optional(std::move(parsed));
}

// Reads a key such as "bos_token": a text, or an object with its "content".
Result<void> add_token(const JsonObject& config, const char* key, Metadata& metadata) {
  const boost::json::value* value = config.find(key);
  if (!value) return {};
  std::optional<std::string> token;
  if (value->is_object()) {
    TRY_ASSIGN(const auto object, config.object(key));
    TRY_ASSIGN(token, object->text("content"));
  } else {
    TRY_ASSIGN(token, config.text(key));
  }
  if (token) metadata.insert(fmt::format("tokenizer.huggingface.{}", key), std::move(*token));
  return {};
}

// Reads a text, or the default of a list of named ones.
Result<std::optional<std::string>> chat_template_of(const JsonObject& config) {
  const boost::json::value* value = config.find("chat_template");
  const boost::json::array* list = value ? value->if_array() : nullptr;
  if (!list) return config.text("chat_template");
  for (const boost::json::value& item : *list) {
    TRY_ASSIGN(const JsonObject named,
               JsonObject::of(item, "tokenizer_config.json", "chat_template[]"));
    TRY_ASSIGN(const auto name, named.text("name"));
    if (name == "default") return named.text("template");
  }
  return std::optional<std::string>();
}

Result<void> add_tokenizer_config(const std::string& folder, Metadata& metadata) {
  TRY_ASSIGN(const auto parsed, read_json(folder, "tokenizer_config.json"));
  std::optional<std::string> chat_template;
  if (parsed) {
    TRY_ASSIGN(const JsonObject config, JsonObject::of(*parsed, "tokenizer_config.json"));
    for (const char* key : {"bos_token", "eos_token"}) TRY(add_token(config, key, metadata));
    for (const char* key : {"add_bos_token", "add_eos_token"}) {
      TRY_ASSIGN(const auto adds, config.flag(key));
      if (adds) metadata.insert(fmt::format("tokenizer.ggml.{}", key), *adds);
    }
    TRY_ASSIGN(chat_template, chat_template_of(config));
  }
  TRY_ASSIGN(auto own_file,
             read_text_file(fmt::format("{}/chat_template.jinja", folder), kMaxConfigBytes));
  if (own_file) chat_template = std::move(own_file);
  if (chat_template) metadata.insert("tokenizer.chat_template", std::move(*chat_template));
  return {};
}

// Returns the end-of-sequence tokens: those of generation_config.json, then those of the model.
Result<std::vector<uint64_t>> end_ids(const std::string& folder, const FolderConfig& config) {
  std::vector<uint64_t> ids;
  TRY_ASSIGN(const auto parsed, read_json(folder, "generation_config.json"));
  if (parsed) {
    TRY_ASSIGN(const JsonObject generation, JsonObject::of(*parsed, "generation_config.json"));
    TRY_ASSIGN(ids, generation.numbers("eos_token_id"));
  }
  for (const uint64_t id : config.end_ids) {
    if (std::ranges::count(ids, id) == 0) ids.push_back(id);
  }
  return ids;
}

}  // namespace

Result<void> add_vocabulary(const std::string& folder, const FolderConfig& config,
                            Metadata& metadata) {
  TRY_ASSIGN(auto tokenizer,
             read_text_file(fmt::format("{}/tokenizer.json", folder), kMaxVocabularyBytes));
  if (!tokenizer) return {};
  if (tokenizer->starts_with(kLfsPointer)) {
    return fail(ErrorCode::kCorrupt, fmt::format("tokenizer.json is {}", kIsLfsPointer));
  }
  metadata.insert("tokenizer.huggingface.json", std::move(*tokenizer));
  metadata.insert("tokenizer.huggingface.n_vocab", uint64_t{config.n_vocab});
  TRY(add_tokenizer_config(folder, metadata));
  TRY_ASSIGN(auto ends, end_ids(folder, config));
  metadata.insert("tokenizer.huggingface.end_ids", std::move(ends));
  return {};
}

}  // namespace kvik::hf
