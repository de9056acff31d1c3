#include "format/hf/keys/latent_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "catalogue/limits.h"

namespace kvik::hf {
namespace {

constexpr const char* kRotated = "no_rope_layers";
constexpr const char* kInterval = "no_rope_layer_interval";
constexpr const char* kSources = "kv_source_layers";

// The list may be longer than the model.
Result<std::vector<bool>> rotated_layers(const JsonObject& config, uint32_t n_layers) {
  TRY_ASSIGN(const std::vector<uint64_t> stated, config.numbers(kRotated));
  std::vector<bool> rotated;
  if (stated.empty()) {
    uint32_t interval = 4;
    if (config.find(kInterval)) {
      TRY_ASSIGN(interval, config.count(kInterval, kMaxLayers));
    }
    for (uint32_t i = 1; i <= n_layers; ++i) rotated.push_back(i % interval != 0);
    return rotated;
  }
  if (stated.size() < n_layers || std::ranges::max(stated) > 1) {
    return config.unexpected_value(kRotated, fmt::format("0 or 1 for each of {} layers", n_layers));
  }
  for (uint32_t i = 0; i < n_layers; ++i) rotated.push_back(stated[i] != 0);
  return rotated;
}

Result<void> check_scaling(const JsonObject& config) {
  TRY_ASSIGN(const auto rope, config.object("rope_parameters"));
  if (!rope) return {};
  TRY_ASSIGN(const auto type, rope->text("rope_type"));
  if (!type || type == "default" || type == "linear" || type == "yarn") return {};
  return rope->unexpected_value("rope_type", "default, linear or yarn", ErrorCode::kUnsupported);
}

}  // namespace

Result<void> read_latent_keys(const JsonObject& config, uint32_t n_layers, GgufKeys& keys) {
  TRY(check_scaling(config));
  TRY_ASSIGN(auto rotated, rotated_layers(config, n_layers));
  keys.flags("rope.layers", std::move(rotated));
  TRY_ASSIGN(std::vector<uint64_t> sources, config.numbers(kSources));
  if (sources.empty()) return {};
  bool are_earlier = sources.size() == n_layers;
  for (uint32_t i = 0; are_earlier && i < n_layers; ++i) are_earlier = sources[i] <= i;
  if (!are_earlier) {
    return config.unexpected_value(
        kSources,
        fmt::format("the layer itself or an earlier one for each of {} layers", n_layers));
  }
  keys.numbers("attention.kv_source_layers", std::move(sources));
  return {};
}

}  // namespace kvik::hf
