#include "model/bases/key_bases.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "catalogue/kv_source.h"
#include "model/model.h"

namespace kvik {
namespace {

// Smaller deviations than this share of the head's largest one are raised to it, so that the range
// of factors stays narrow.
constexpr double kMinDeviation = 1.0 / 64;

// Returns the fourth root of the deviation, rounded to a power of two so that dividing by it is
// exact.
float factor_of(double deviation, double most) {
  const double limited = std::max(deviation, most * kMinDeviation);
  if (!(limited >= 0x1p-60) || !(limited <= 0x1p60)) return 1.0f;
  return static_cast<float>(std::exp2(std::round(0.25 * std::log2(limited))));
}

// Returns whether the mean may be subtracted. It adds the same constant to all scores of a row,
// which softmax ignores, unless the scores are capped or compete with a sink.
bool may_center(const AttentionConfig& attention) {
  return attention.soft_cap == 0 && !attention.has_sinks;
}

// Returns the mean and deviation of each dimension of a layer's K. If the mean may not be
// subtracted, it is 0 and the deviation is measured from 0.
std::vector<KeyStatistics::Dimension> dimensions_of(const KeyStatistics& statistics, uint32_t layer,
                                                    const AttentionConfig& attention) {
  auto dimensions = statistics.dimensions(layer);
  dimensions.resize(attention.kv_dim());
  for (KeyStatistics::Dimension& d : dimensions) {
    if (may_center(attention) && std::isfinite(static_cast<float>(d.mean))) continue;
    d = {0, std::hypot(d.mean, d.deviation)};
  }
  return dimensions;
}

// Appends a layer's centers, factors of K and factors of queries.
void append_floats(std::span<const KeyStatistics::Dimension> dimensions, uint32_t head_dim,
                   std::vector<float>& floats) {
  std::vector<float> factors;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const auto head = dimensions.subspan(d / head_dim * head_dim, head_dim);
    const double most =
        std::ranges::max_element(head, {}, &KeyStatistics::Dimension::deviation)->deviation;
    factors.push_back(factor_of(dimensions[d].deviation, most));
    floats.push_back(static_cast<float>(dimensions[d].mean));
  }
  for (const float factor : factors) floats.push_back(1.0f / factor);
  floats.insert(floats.end(), factors.begin(), factors.end());
}

}  // namespace

uint64_t KeyBases::bytes(const ModelConfig& config, KvType type) {
  if (!is_quantized(type)) return 0;
  return 3 * KeyStatistics::n_dimensions(config) * sizeof(float);
}

KeyBases::KeyBases(const Model& model, Backend& backend, KvType type) {
  const ModelConfig& config = model.config();
  const uint64_t n_bytes = bytes(config, type);
  if (n_bytes == 0) return;
  CHECK(model.key_statistics().is_measured());
  std::vector<float> floats;
  rotates_keys_ = key_type(type) == KvType::kInt8;
  rotates_values_ = value_type(type) == KvType::kInt8;
  layers_.resize(config.layers.size());
  for (uint32_t i = 0; i < config.layers.size(); ++i) {
    if (!keeps_heads(config.layers[i])) continue;
    const AttentionConfig& a = config.layers[i].attention();
    layers_[i] = {.is_measured = true,
                  .head_dim = a.head_dim,
                  .group = a.n_heads / a.n_kv_heads,
                  .offset = floats.size(),
                  .kv_dim = a.kv_dim()};
    append_floats(dimensions_of(model.key_statistics(), i, a), a.head_dim, floats);
  }
  buffer_ = backend.memory().allocate(n_bytes);
  backend.memory().copy_in(buffer_.data(), std::as_bytes(std::span(floats)));
  // The queries of a layer with KV sharing are in the basis of the layer whose pages it reads.
  for (uint32_t i = 0; i < config.layers.size(); ++i) {
    if (const auto kv_source = kv_source_of(config.layers[i])) {
      const AttentionConfig& a = config.layers[i].attention();
      layers_[i] = layers_[*kv_source];
      layers_[i].group = a.n_heads / a.n_kv_heads;
    }
  }
}

HeadBasis KeyBases::keys(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .centers = floats(layer, 0),
          .factors = floats(layer, 1),
          .rotation = rotates_keys_ ? HeadRotation::kForward : HeadRotation::kNone};
}

HeadBasis KeyBases::queries(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .group = layers_[layer].group,
          .factors = floats(layer, 2),
          .rotation = rotates_keys_ ? HeadRotation::kBack : HeadRotation::kNone};
}

HeadBasis KeyBases::values(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .rotation = rotates_values_ ? HeadRotation::kForward : HeadRotation::kNone};
}

HeadBasis KeyBases::outputs(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .rotation = rotates_values_ ? HeadRotation::kBack : HeadRotation::kNone};
}

}  // namespace kvik
