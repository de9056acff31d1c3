#include "format/hf/keys/indexer_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace kvik::hf
