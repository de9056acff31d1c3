#include "catalogue/activation_limits.h"

#include <fmt/format.h>

#include <variant>
#include <vector>

namespace kvik {
namespace {

Result<float> read_limit(const KeyReader& keys, std::string_view key, const ModelConfig& config,
                         uint32_t layer) {
  if (!keys.has(key)) return 0.0f;
  TRY_ASSIGN(const std::vector<float> limits, keys.reals(key, config.n_listed_layers()));
  for (const float limit : limits) {
    if (limit >= 0) continue;
    return fail(ErrorCode::kCorrupt,
                fmt::format("'{}' has {}, expected numbers ≥ 0", keys.full(key), limit));
  }
  return limits[layer];
}

}  // namespace

Result<void> set_limits(const KeyReader& keys, const ModelConfig& config, uint32_t layer,
                        LayerConfig& of) {
  TRY_ASSIGN(const float of_mlp, read_limit(keys, "swiglu_clamp_shexp", config, layer));
  if (auto* mlp = std::get_if<MlpConfig>(&of.feed_forward)) {
    mlp->activation.limit = of_mlp;
  } else if (auto* experts = std::get_if<ExpertsConfig>(&of.feed_forward)) {
    TRY_ASSIGN(experts->limit, read_limit(keys, "swiglu_clamp_exp", config, layer));
    experts->shared_limit = of_mlp;
  }
  return {};
}

Result<void> finish_limits(const KeyReader& keys, ModelConfig& config) {
  for (uint32_t i = 0; i < config.n_layers; ++i) TRY(set_limits(keys, config, i, config.layers[i]));
  return {};
}

}  // namespace kvik
