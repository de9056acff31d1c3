#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json/json_object.h"
#include "catalogue/family.h"
#include "catalogue/limits.h"
#include "catalogue/read_assistant.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/draft/assistant_head.h"
#include "format/hf/tensor_files.h"
#include "format/quoted.h"

namespace kvik {
namespace {

using enum TensorRole;

constexpr size_t kMaxAssistantConfigBytes = size_t{16} << 20;
constexpr const char* kAssistantConfig = "config.json";
constexpr std::string_view kAssistantTypes[] = {"gemma4_assistant", "gemma4_unified_assistant"};
constexpr std::string_view kTextType = "gemma4_text";
constexpr std::string_view kAssistantLayers = "model.layers.";
constexpr std::pair<std::string_view, std::string_view> kAssistantNames[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"pre_projection.weight", "nextn.pre_projection.weight"},
    {"post_projection.weight", "nextn.post_projection.weight"},
};
constexpr TensorRole kAssistantRoles[] = {
    kAttentionNorm, kQ,  kQNorm, kAttentionOutput, kPostAttentionNorm, kFfnNorm,
    kGate,          kUp, kDown,  kPostFfnNorm,     kLayerScale};

Result<std::optional<boost::json::value>> read_assistant_json(const std::string& path) {
  TRY_ASSIGN(const auto text, hf::read_text_file(fmt::format("{}/{}", path, kAssistantConfig),
                                                 kMaxAssistantConfigBytes));
  if (!text) return std::nullopt;
  TRY_ASSIGN(boost::json::value parsed, parse_json_file(*text, kAssistantConfig));
  return parsed;
}

std::optional<std::string> assistant_tensor(std::string_view name) {
  for (const auto& [folder, gguf] : kAssistantNames) {
    if (folder == name) return std::string(gguf);
  }
  if (!name.starts_with(kAssistantLayers)) return std::nullopt;
  name.remove_prefix(kAssistantLayers.size());
  uint32_t layer = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), layer);
  if (error != std::errc() || end == name.end() || *end != '.') return std::nullopt;
  name.remove_prefix(static_cast<size_t>(end - name.begin()) + 1);
  const FolderType* type = find_folder_type(kTextType).type;
  CHECK(type);
  for (const TensorRole role : kAssistantRoles) {
    if (folder_name(*type, role) == name) return name_of(TensorId{role, layer});
  }
  return std::nullopt;
}

Result<Metadata> read_assistant_keys(const boost::json::value& parsed) {
  TRY_ASSIGN(const JsonObject whole, JsonObject::of(parsed, kAssistantConfig));
  TRY_ASSIGN(const auto text, whole.object("text_config"));
  if (!text) return whole.unexpected_value("text_config", "an object");
  Metadata keys;
  keys.insert("general.architecture", std::string(kAssistantArchitecture));
  const auto add = [&](std::string_view key, Metadata::Value value) {
    keys.insert(fmt::format("{}.{}", kAssistantArchitecture, key), std::move(value));
  };
  const auto copy = [&](const JsonObject& from, std::string_view name, std::string_view key,
                        uint64_t most) -> Result<void> {
    TRY_ASSIGN(const uint32_t n, from.count(name, most));
    add(key, uint64_t{n});
    return {};
  };
  TRY(copy(whole, "backbone_hidden_size", "embedding_length_out", kMaxDim));
  TRY(copy(*text, "num_hidden_layers", "block_count", kMaxLayers));
  TRY(copy(*text, "hidden_size", "embedding_length", kMaxDim));
  TRY(copy(*text, "intermediate_size", "feed_forward_length", kMaxDim));
  TRY(copy(*text, "num_attention_heads", "attention.head_count", kMaxHeads));
  TRY(copy(*text, "head_dim", "attention.key_length_swa", kMaxHeadDim));
  const bool has_global = text->find("global_head_dim") != nullptr;
  TRY(copy(*text, has_global ? "global_head_dim" : "head_dim", "attention.key_length",
           kMaxHeadDim));
  TRY_ASSIGN(const std::vector<std::string> types, text->texts("layer_types"));
  std::vector<bool> windowed;
  for (const std::string& type : types) windowed.push_back(type == "sliding_attention");
  if (windowed.empty()) return text->unexpected_value("layer_types", "a list of types");
  add("attention.sliding_window_pattern", std::move(windowed));
  return keys;
}

Result<std::unique_ptr<ModelSource>> open_assistant(const std::string& path) {
  TRY_ASSIGN(const auto parsed, read_assistant_json(path));
  if (!parsed) return fail(ErrorCode::kNotFound, "there is no config.json");
  TRY_ASSIGN(Metadata keys, read_assistant_keys(*parsed));
  TRY_ASSIGN(auto source, hf::open_tensor_files(path));
  std::vector<ArrangedTensor> arranged;
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    const std::string& name = source->tensors()[i].name;
    // The output projection is tied to the embedding; clusters of tokens are not used.
    if (name == "lm_head.weight" || name.starts_with("masked_embedding.")) continue;
    const auto known = assistant_tensor(name);
    if (!known) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {} is not supported in an assistant", quoted(name)));
    }
    ArrangedTensor tensor = unchanged_tensor(*source, i);
    tensor.info.name = *known;
    arranged.push_back(std::move(tensor));
  }
  arrange(*source, std::move(arranged));
  source->describe(path, std::move(keys));
  return source;
}

}  // namespace

bool is_assistant_folder(const std::string& path) {
  const auto parsed = read_assistant_json(path);
  if (!parsed || !*parsed || !(*parsed)->is_object()) return false;
  const boost::json::value* type = (*parsed)->get_object().if_contains("model_type");
  if (!type || !type->is_string()) return false;
  const std::string_view text = type->get_string();
  return text == kAssistantTypes[0] || text == kAssistantTypes[1];
}

Result<std::unique_ptr<ModelSource>> open_assistant_folder(const std::string& path) {
  auto source = open_assistant(path);
  if (source) return source;
  return fail(source.error().code, fmt::format("'{}': {}", path, source.error().message));
}

}  // namespace kvik
