#include "catalogue/families/step.h"

#include <fmt/format.h>

#include <variant>
#include <vector>

#include "catalogue/families/mtp_layers.h"
#include "catalogue/key_reader.h"

namespace kvik::families {
namespace {

// Returns the limit of each layer; 0: none.
Result<std::vector<float>> read_limits(const KeyReader& keys, std::string_view key, size_t n) {
  if (!keys.has(key)) return std::vector<float>(n);
  TRY_ASSIGN(std::vector<float> limits, keys.reals(key, n));
  for (const float limit : limits) {
    if (limit >= 0) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' has {}, expected numbers ≥ 0", keys.full(key), limit));
  }
  return limits;
}

}  // namespace

Result<void> finish_step35(const KeyReader& keys, ModelConfig& config) {
  const size_t n = config.n_listed_layers();
  TRY_ASSIGN(const auto of_experts, read_limits(keys, "swiglu_clamp_exp", n));
  TRY_ASSIGN(const auto of_mlps, read_limits(keys, "swiglu_clamp_shexp", n));
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (auto* experts = std::get_if<ExpertsConfig>(&config.layers[i].feed_forward)) {
      experts->limit = of_experts[i];
      experts->shared_limit = of_mlps[i];
    } else {
      std::get<MlpConfig>(config.layers[i].feed_forward).activation.limit = of_mlps[i];
    }
  }
  return {};
}

Result<LayerConfig> step35_mtp_layer(const KeyReader& keys, const ModelConfig& config) {
  const size_t n = config.n_listed_layers();
  bool is_windowed = true;
  if (keys.has("mtp.is_windowed")) {
    TRY_ASSIGN(is_windowed, keys.flag("mtp.is_windowed", true));
  } else if (keys.is_list("attention.sliding_window_pattern")) {
    TRY_ASSIGN(const auto windowed, keys.flags("attention.sliding_window_pattern", n));
    is_windowed = windowed[config.n_layers];
  }
  TRY_ASSIGN(const auto limits, read_limits(keys, "swiglu_clamp_shexp", n));
  MlpConfig mlp{.ffn_dim = config.ffn_dim};
  TRY_ASSIGN(mlp.activation.limit, keys.real("mtp.swiglu_clamp", double{limits[config.n_layers]}));
  return LayerConfig{.mixer = attention_with(config, is_windowed ? Span::kWindow : Span::kAll),
                     .feed_forward = mlp};
}

}  // namespace kvik::families
