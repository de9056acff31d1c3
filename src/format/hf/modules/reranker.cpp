#include "format/hf/modules/reranker.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/json/json_object.h"
#include "catalogue/read_encoder.h"
#include "format/hf/encoder.h"
#include "format/hf/gguf_keys.h"
#include "format/hf/keys/config_file.h"
#include "format/hf/modules/modules.h"
#include "format/hf/tensor_files.h"

namespace kvik::hf {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::string_view kName = "qwen3-reranker";  // in lower case
constexpr std::string_view kHeading = "# qwen3-reranker";
constexpr size_t kMaxReadmeBytes = size_t{1} << 20;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Returns whether the folder, or the repository of which it is a snapshot, has the name.
bool has_name(const std::string& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.parent_path().filename() == "snapshots") path = path.parent_path().parent_path();
  return lower(path.filename().string()).contains(kName);
}

bool has_heading(const std::string& folder) {
  const auto text = read_text_file(folder + "/README.md", kMaxReadmeBytes);
  return text && *text && lower(**text).contains(kHeading);
}

// Returns whether config.json has the keys by which vLLM scores with a model that generates.
Result<bool> has_keys(const JsonObject& config) {
  TRY_ASSIGN(const auto tokens, config.texts("classifier_from_token"));
  return tokens == std::vector<std::string>{"no", "yes"};
}

Result<bool> classifies(const JsonObject& config) {
  TRY_ASSIGN(const auto names, config.texts("architectures"));
  return std::ranges::any_of(
      names, [](const std::string& name) { return name.ends_with("ForSequenceClassification"); });
}

// Returns the numbers of the tokens "yes" and "no".
Result<std::vector<uint64_t>> yes_and_no(const Metadata& metadata) {
  constexpr const char* kFile = "tokenizer.json";
  TRY_ASSIGN(const auto text, metadata.get_string("tokenizer.huggingface.json"));
  if (!text) return fail(ErrorCode::kCorrupt, fmt::format("{} is missing", kFile));
  TRY_ASSIGN(const json::value parsed, parse_json_file(*text, kFile));
  TRY_ASSIGN(const JsonObject whole, JsonObject::of(parsed, kFile));
  TRY_ASSIGN(const auto model, whole.object("model"));
  std::optional<JsonObject> vocabulary;
  if (model) {
    TRY_ASSIGN(vocabulary, model->object("vocab"));
  }
  std::vector<uint64_t> ids;
  for (const std::string_view token : kYesAndNo) {
    std::optional<uint64_t> id;
    if (vocabulary) {
      TRY_ASSIGN(id, vocabulary->number(token));
    }
    if (!id) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: there is no token '{}', expected one for the scores of a "
                              "Qwen3-Reranker",
                              kFile, token));
    }
    ids.push_back(*id);
  }
  return ids;
}

// Checks that a module LogitScore compares the tokens "yes" and "no".
Result<void> check_module(const std::string& folder, const Module& module,
                          std::span<const uint64_t> yes_and_no) {
  TRY_ASSIGN(const json::value parsed, read_module_config(folder, module));
  TRY_ASSIGN(const JsonObject config, JsonObject::of(parsed, module.path + "/config.json"));
  for (const auto& [key, id] :
       {std::pair("true_token_id", yes_and_no[0]), std::pair("false_token_id", yes_and_no[1])}) {
    TRY_ASSIGN(const auto stated, config.number(key));
    if (stated == id) continue;
    return config.unexpected_value(key, fmt::format("{}, as in Qwen3-Reranker", id),
                                   ErrorCode::kUnsupported);
  }
  return {};
}

}  // namespace

Result<void> add_reranker(const std::string& folder, std::string_view config_json,
                          FolderConfig& config) {
  if (config.architecture != kRerankerFamily) return {};
  TRY_ASSIGN(const json::value parsed, parse_json_file(config_json, kConfigFile));
  TRY_ASSIGN(const JsonObject stated, JsonObject::of(parsed, kConfigFile));
  TRY_ASSIGN(const bool has_classifier, classifies(stated));
  if (has_classifier) return {};
  TRY_ASSIGN(const std::vector<Module> modules, read_modules(folder));
  const auto module = std::ranges::find(modules, kLogitScore, &Module::kind);
  const bool has_module = module != modules.end();
  TRY_ASSIGN(const bool is_of_vllm, has_keys(stated));
  if (!has_module && !is_of_vllm && !has_name(folder) && !has_heading(folder)) return {};
  TRY_ASSIGN(config.score_tokens, yes_and_no(config.metadata));
  if (has_module) TRY(check_module(folder, *module, config.score_tokens));
  GgufKeys keys(config.metadata, kRerankerFamily);
  config.metadata.erase(fmt::format("{}.pooling_type", kRerankerFamily));
  keys.number("pooling_type", kRankPooling);
  keys.texts(kLabelsKey, {kYesAndNo[0].data(), kYesAndNo[1].data()});
  return {};
}

}  // namespace kvik::hf
