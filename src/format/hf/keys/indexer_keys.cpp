#include "format/hf/keys/indexer_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "format/hf/keys/config_file.h"

namespace kvik::hf {
namespace {

constexpr const char* kTypes = "indexer_types";
constexpr const char* kPattern = "index_topk_pattern";
constexpr const char* kFrequency = "index_topk_freq";
constexpr const char* kOffset = "index_skip_topk_offset";

// Returns the words of the list `key`, or a word for each letter of a text "FSSF…".
Result<std::vector<std::string>> words_of(const JsonObject& config, const char* key) {
  const auto* value = config.find(key);
  if (!value || !value->is_string()) return config.texts(key);
  std::vector<std::string> words;
  for (const char letter : value->get_string()) {
    words.emplace_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : "unknown");
  }
  return words;
}

// After the first layers, of which each has an indexer, every n-th layer has one.
Result<std::vector<bool>> by_distance(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const auto stated, config.number(kFrequency));
  TRY_ASSIGN(const auto first, config.number(kOffset));
  const uint64_t distance = std::max<uint64_t>(stated.value_or(1), 1);
  const uint64_t offset = first.value_or(2);
  std::vector<bool> own;
  for (uint64_t i = 0; i < n_layers; ++i) {
    own.push_back(i + 1 <= offset || (i + 1 - offset) % distance == 0);
  }
  return own;
}

}  // namespace

Result<void> read_shared_indexers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  const char* key = config.find(kTypes) ? kTypes : kPattern;
  TRY_ASSIGN(const auto words, words_of(config, key));
  if (words.empty()) {
    TRY_ASSIGN(auto own, by_distance(config, n_layers));
    keys.flags("attention.indexer.types", std::move(own));
    return {};
  }
  std::vector<bool> own;
  for (const std::string& word : words) {
    if (word == "full" || word == "shared") own.push_back(word == "full");
  }
  if (own.size() == words.size() && own.size() == n_layers) {
    keys.flags("attention.indexer.types", std::move(own));
    return {};
  }
  return config.unexpected_value(key,
                                 fmt::format("full or shared for each of {} layers", n_layers));
}

namespace {

namespace json = boost::json;

constexpr const char* kLayerTypes = "layer_types";
constexpr const char* kSparseLayer = "minimax_m3_sparse";
constexpr const char* kFullLayer = "full_attention";

// Checks what MiniMax's folders could state, but Transformers does not know.
Result<void> check_sparse_keys(const JsonObject& sparse) {
  TRY_ASSIGN(const auto is_used, sparse.flag("use_sparse_attention"));
  if (!is_used.value_or(true)) {
    return sparse.unexpected_value("use_sparse_attention", "true", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto score, sparse.text("sparse_score_type"));
  if (score.value_or("max") != "max") {
    return sparse.unexpected_value("sparse_score_type", "max", ErrorCode::kUnsupported);
  }
  TRY_ASSIGN(const auto n_first, sparse.number("sparse_init_block"));
  if (n_first.value_or(0) == 0) return {};
  return sparse.unexpected_value("sparse_init_block", "0", ErrorCode::kUnsupported);
}

// Gives the keys the names that their errors have.
Result<void> flatten(const JsonObject& sparse, uint32_t n_layers, json::object& all) {
  TRY(check_sparse_keys(sparse));
  for (const auto& member : sparse.all()) all[sparse.path_of(member.key())] = member.value();
  constexpr const char* kFrequency = "sparse_attention_freq";
  TRY_ASSIGN(const auto layers, sparse.numbers(kFrequency));
  if (layers.empty() || all.contains(kLayerTypes)) return {};
  if (layers.size() != n_layers) {
    return sparse.unexpected_value(kFrequency,
                                   fmt::format("0 or 1 for each of {} layers", n_layers));
  }
  json::array types;
  for (const uint64_t is_sparse : layers) types.emplace_back(is_sparse ? kSparseLayer : kFullLayer);
  all[kLayerTypes] = std::move(types);
  return {};
}

}  // namespace

Result<json::value> with_sparse_keys(json::value config) {
  json::object all = config.get_object();
  {
    TRY_ASSIGN(const JsonObject stated, JsonObject::of(config, kConfigFile));
    TRY_ASSIGN(const auto sparse, stated.object("sparse_attention_config"));
    if (!sparse) return config;
    TRY_ASSIGN(const uint32_t n_layers, stated.count("num_hidden_layers", kMaxLayers));
    TRY(flatten(*sparse, n_layers, all));
  }
  return json::value(std::move(all));
}

Result<void> read_sparse_layers(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY_ASSIGN(const auto types, config.texts(kLayerTypes));
  std::vector<bool> is_sparse;
  for (const std::string& type : types) {
    if (type == kSparseLayer || type == kFullLayer) is_sparse.push_back(type == kSparseLayer);
  }
  if (types.empty()) is_sparse.assign(n_layers, false);
  if (is_sparse.size() == n_layers && (types.empty() || types.size() == n_layers)) {
    keys.flags("attention.indexer.types", std::move(is_sparse));
    return {};
  }
  return config.unexpected_value(
      kLayerTypes,
      fmt::format("{} or {} for each of {} layers", kFullLayer, kSparseLayer, n_layers),
      ErrorCode::kUnsupported);
}

}  // namespace kvik::hf
