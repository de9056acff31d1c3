#include "format/hf/keys/block_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "catalogue/limits.h"
#include "format/hf/keys/config_file.h"

namespace kvik::hf {
namespace {

namespace json = boost::json;

constexpr const char* kBlocks = "block_configs";
constexpr const char* kType = "block_type";
constexpr const char* kLayers = "num_hidden_layers";
constexpr const char* kMtpBlocks = "mtp_block_configs";
constexpr const char* kMtpLayers = "num_nextn_predict_layers";
constexpr std::string_view kMtpPattern = "*E";  // the two parts of an MTP layer
// Keys of which the values of layers may differ.
constexpr std::string_view kExpertSize = "moe_intermediate_size";
constexpr std::string_view kSizes[] = {"n_routed_experts", "num_experts_per_tok", kExpertSize,
                                       "moe_shared_expert_intermediate_size", "moe_latent_size"};
constexpr std::pair<std::string_view, char> kLetters[] = {
    {"mamba", 'M'}, {"attention", '*'}, {"moe", 'E'}, {"mlp", '-'}};

std::string listed_name(std::string_view key) { return fmt::format("kvik_of_blocks_{}", key); }

bool may_differ(std::string_view key) { return std::ranges::count(kSizes, key) > 0; }

Result<std::vector<JsonObject>> read_blocks(const JsonObject& config, const char* key) {
  const json::value* stated = config.find(key);
  const json::array* list = stated ? stated->if_array() : nullptr;
  if (!list || list->empty() || list->size() > kMaxLayers) {
    return config.unexpected_value(key, fmt::format("a list of 1 to {} objects", kMaxLayers));
  }
  std::vector<JsonObject> blocks;
  for (const json::value& block : *list) {
    TRY_ASSIGN(JsonObject fields,
               JsonObject::of(block, kConfigFile, fmt::format("{}[{}]", key, blocks.size())));
    blocks.push_back(std::move(fields));
  }
  return blocks;
}

// Returns a letter for each block.
Result<std::string> read_pattern(const std::vector<JsonObject>& blocks) {
  std::string pattern;
  for (const JsonObject& block : blocks) {
    TRY_ASSIGN(const auto type, block.text(kType));
    const auto* found =
        std::ranges::find(kLetters, type.value_or(""), &std::pair<std::string_view, char>::first);
    if (found == std::end(kLetters)) {
      return block.unexpected_value(kType, "mamba, attention, moe or mlp", ErrorCode::kUnsupported);
    }
    pattern += found->second;
  }
  return pattern;
}

// Returns the blocks of the MTP layer; none if the model has no such layer.
Result<std::vector<JsonObject>> read_mtp_blocks(const JsonObject& config,
                                                const std::string& pattern) {
  const json::value* stated = config.find(kMtpBlocks);
  if (!stated || (stated->is_array() && stated->get_array().empty())) {
    return std::vector<JsonObject>();
  }
  TRY_ASSIGN(std::vector<JsonObject> blocks, read_blocks(config, kMtpBlocks));
  TRY_ASSIGN(const std::string own_pattern, read_pattern(blocks));
  if (own_pattern == kMtpPattern && pattern.contains('E')) return blocks;
  return config.unexpected_value(kMtpBlocks,
                                 "attention and moe, one of each, in a model with experts",
                                 ErrorCode::kUnsupported);
}

// Collects the keys of blocks by name, with the letter of the blocks that have them.
Result<std::map<std::string, char>> keys_of(const std::vector<JsonObject>& blocks,
                                            const std::string& pattern) {
  std::map<std::string, char> keys;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const auto& member : blocks[i].all()) {
      const std::string key(member.key());
      if (key == kType || member.value().is_null()) continue;
      const auto [place, is_new] = keys.emplace(key, pattern[i]);
      if (is_new || place->second == pattern[i]) continue;
      return blocks[i].unexpected_value(key, "a key of blocks of one type",
                                        ErrorCode::kUnsupported);
    }
  }
  return keys;
}

}  // namespace

Result<json::value> with_block_keys(json::value config) {
  json::object& all = config.get_object();
  TRY_ASSIGN(const JsonObject stated, JsonObject::of(config, kConfigFile));
  TRY_ASSIGN(std::vector<JsonObject> blocks, read_blocks(stated, kBlocks));
  TRY_ASSIGN(const auto n_layers, stated.number(kLayers));
  if (n_layers.value_or(blocks.size()) != blocks.size()) {
    return stated.unexpected_value(kLayers, fmt::format("the {} of {}", blocks.size(), kBlocks));
  }
  TRY_ASSIGN(std::string pattern, read_pattern(blocks));
  json::object added = {{"hybrid_override_pattern", pattern}, {kLayers, blocks.size()}};
  const size_t mtp_attention = blocks.size();  // has no entry of its own in lists
  TRY_ASSIGN(const std::vector<JsonObject> mtp_blocks, read_mtp_blocks(stated, pattern));
  const bool has_mtp = !mtp_blocks.empty();
  if (has_mtp) pattern += kMtpPattern;
  blocks.insert(blocks.end(), mtp_blocks.begin(), mtp_blocks.end());
  added[kMtpLayers] = has_mtp ? json::value(1) : json::value();
  TRY_ASSIGN(auto keys, keys_of(blocks, pattern));
  if (has_mtp) keys.emplace(kExpertSize, 'E');
  for (const auto& [key, letter] : keys) {
    json::array values;
    std::set<uint64_t> sizes;
    bool is_same = true;
    const json::value* first = nullptr;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (pattern[i] != letter) {
        if (i != mtp_attention) values.emplace_back(0);
        continue;
      }
      const JsonObject& of = blocks[i].find(key) ? blocks[i] : stated;
      const json::value* value = of.find(key);
      if (!value) return blocks[i].unexpected_value(key, "a value for each block of the type");
      if (!first) first = value;
      is_same = is_same && *value == *first;
      if (may_differ(key)) {
        TRY_ASSIGN(const uint32_t size, of.count(key, kMaxDim));
        sizes.insert(size);
      }
      values.push_back(*value);
    }
    // With an MTP layer, the sizes of its experts are listed even if they are those of all.
    if (is_same && !(has_mtp && key == kExpertSize)) {
      added[key] = *first;
    } else if (may_differ(key)) {
      added[key] = *sizes.rbegin();
      added[listed_name(key)] = std::move(values);
    } else {
      return stated.unexpected_value(kBlocks, fmt::format("one value of {} for all layers", key),
                                     ErrorCode::kUnsupported);
    }
  }
  for (auto& member : added) all[member.key()] = std::move(member.value());
  return config;
}

Result<std::vector<uint64_t>> sizes_of_blocks(const JsonObject& config, std::string_view key) {
  return config.numbers(listed_name(key));
}

}  // namespace kvik::hf
