#include "catalogue/activation_limits.h"

#include <fmt/format.h>

#include <variant>
#include <vector>

namespace kvik {
namespace {

constexpr std::string_view kOfExperts = "swiglu_clamp_exp", kOfMlps = "swiglu_clamp_shexp";

// Returns the limits of all layers; empty: there are none.
Result<std::vector<float>> read_limits(const KeyReader& keys, std::string_view key,
                                       const ModelConfig& config) {
  if (!keys.has(key)) return std::vector<float>();
  TRY_ASSIGN(std::vector<float> limits, keys.reals(key, config.n_listed_layers()));
  for (size_t layer = 0; layer < limits.size(); ++layer) {
    if (limits[layer] >= 0) continue;
    return fail(ErrorCode::kCorrupt, fmt::format("'{}' is {} in layer {}, expected a number ≥ 0",
                                                 keys.full(key), limits[layer], layer));
  }
  return limits;
}

struct Limits {
  std::vector<float> of_experts, of_mlps;

  static Result<Limits> read(const KeyReader& keys, const ModelConfig& config) {
    Limits limits;
    TRY_ASSIGN(limits.of_experts, read_limits(keys, kOfExperts, config));
    TRY_ASSIGN(limits.of_mlps, read_limits(keys, kOfMlps, config));
    return limits;
  }
  void set(uint32_t layer, LayerConfig& of) const {
    const auto limit = [&](const std::vector<float>& all) {
      return all.empty() ? 0.0f : all[layer];
    };
    if (auto* mlp = std::get_if<MlpConfig>(&of.feed_forward)) {
      mlp->activation.limit = limit(of_mlps);
    } else if (auto* experts = std::get_if<ExpertsConfig>(&of.feed_forward)) {
      experts->limit = limit(of_experts);
      experts->shared_limit = limit(of_mlps);
    }
  }
};

}  // namespace

Result<void> set_limits(const KeyReader& keys, const ModelConfig& config, uint32_t layer,
                        LayerConfig& of) {
  TRY_ASSIGN(const Limits limits, Limits::read(keys, config));
  limits.set(layer, of);
  return {};
}

Result<void> finish_limits(const KeyReader& keys, ModelConfig& config) {
  TRY_ASSIGN(const Limits limits, Limits::read(keys, config));
  for (uint32_t i = 0; i < config.n_layers; ++i) limits.set(i, config.layers[i]);
  return {};
}

}  // namespace kvik
