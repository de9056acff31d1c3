#include "hub/stores/ollama_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json/json.h"
#include "hub/download/file_download.h"
#include "hub/model_name.h"

namespace kvik {
namespace {

constexpr JsonLimits kManifestLimits{
    .max_bytes = OllamaManifest::kMaxBytes, .max_values = 10'000, .max_depth = 16};

std::string member_text(const Json& object, std::string_view member) {
  const Json* const value = object.find(member);
  return value ? value->text() : "";
}

std::optional<OllamaManifest::Layer> parse_layer(const Json& json) {
  constexpr std::string_view kDigestPrefix = "sha256:";
  OllamaManifest::Layer layer{.media_type = member_text(json, "mediaType"),
                              .sha256 = member_text(json, "digest"),
                              .n_bytes = 0};
  if (!layer.sha256.starts_with(kDigestPrefix)) return std::nullopt;
  layer.sha256.erase(0, kDigestPrefix.size());
  const Json* const size = json.find("size");
  const int64_t* const n_bytes = size ? std::get_if<int64_t>(&size->value) : nullptr;
  if (!is_hex(layer.sha256, 64) || n_bytes == nullptr || *n_bytes < 0) return std::nullopt;
  layer.n_bytes = static_cast<uint64_t>(*n_bytes);
  if (layer.n_bytes > kMaxFileBytes) return std::nullopt;
  return layer;
}

}  // namespace

Result<OllamaManifest> parse_ollama_manifest(const std::string& json) {
  const auto parsed = parse_json(json, kManifestLimits);
  if (!parsed)
    return fail(ErrorCode::kCorrupt,
                fmt::format("a manifest of Ollama's: {}", parsed.error().message));
  const Json* const layers = parsed->find("layers");
  const Json* const config = parsed->find("config");
  OllamaManifest manifest;
  bool is_valid = layers != nullptr && layers->is(Json::Kind::kArray) && config != nullptr;
  for (size_t i = 0; is_valid && i < layers->size(); ++i) {
    auto layer = parse_layer((*layers)[i]);
    is_valid = layer.has_value();
    if (layer) manifest.layers.push_back(std::move(*layer));
  }
  const auto config_layer = is_valid ? parse_layer(*config) : std::nullopt;
  if (!config_layer)
    return fail(ErrorCode::kCorrupt, "a manifest of Ollama's has no valid 'layers' and 'config'");
  const auto is_model = [](const OllamaManifest::Layer& layer) {
    return layer.media_type == OllamaManifest::kModelLayer;
  };
  const auto n_models = std::ranges::count_if(manifest.layers, is_model);
  if (n_models != 1) {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("a manifest of Ollama's has {} layers of weights, expected one", n_models));
  }
  std::ranges::stable_partition(manifest.layers, is_model);
  manifest.layers.push_back(*config_layer);
  return manifest;
}

OllamaConfig parse_ollama_config(const std::string& json) {
  const auto parsed = parse_json(json, kManifestLimits);
  if (!parsed) return {};
  return {.family = member_text(*parsed, "model_family"),
          .parameter_size = member_text(*parsed, "model_type"),
          .quantization = member_text(*parsed, "file_type")};
}

}  // namespace kvik
