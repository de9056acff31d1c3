#include "model/bases/key_bases.h"

#include <algorithm>
#include <cmath>

#include "catalogue/lender.h"
#include "model/decoder.h"
#include "model/state_layout.h"

namespace kvik {
namespace {

// Tokens of the forward pass in which K is measured.
constexpr uint32_t kMeasuredTokens = 64;
// Tokens of high numbers are rare words, or unused.
constexpr uint32_t kMostCommonToken = 16384;
// Deviations below this share of a head's largest count as that: factors stay in a narrow range.
constexpr double kLeastDeviation = 1.0 / 64;

bool keeps_heads(const LayerConfig& layer) {
  const AttentionConfig* attention = layer.if_attention();
  return attention && !attention->latent.rank && !attention->shared_kv;
}

// The same for every model with as many tokens, and unlike each other.
std::vector<TokenId> measured_tokens(uint32_t n_vocab) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < kMeasuredTokens; ++i) {
    const uint32_t mixed = (i + 1) * 2654435761u;
    tokens.push_back((mixed ^ mixed >> 15) % std::min(n_vocab, kMostCommonToken));
  }
  return tokens;
}

// Runs the model over the tokens, without a cache of the engine's.
KeyStatistics observe(const Model& model, Backend& backend) {
  const std::vector<TokenId> tokens = measured_tokens(model.config().n_vocab);
  KeyStatistics statistics(model.config());
  Decoder decoder(model, backend, KvType::kF32, kMeasuredTokens);
  decoder.observe_keys(&statistics);
  const uint32_t n_groups = decoder.groups().n_groups();
  constexpr uint32_t kPages = (kMeasuredTokens + kPageTokens - 1) / kPageTokens;
  const Buffer pages = backend.memory().allocate(size_t{n_groups} * kPages * decoder.page_bytes());
  const Buffer state = backend.memory().allocate(state_layout(model.config()).n_bytes());
  std::vector<std::byte*> addresses;
  for (uint32_t i = 0; i < n_groups * kPages; ++i) {
    addresses.push_back(pages.data() + i * decoder.page_bytes());
  }
  std::vector<std::span<std::byte* const>> tables;
  for (uint32_t g = 0; g < n_groups; ++g) {
    tables.push_back(std::span(addresses).subspan(size_t{g} * kPages, kPages));
  }
  const BatchSequence sequence = {
      .tokens = tokens,
      .kv = {.groups = tables, .state = state.size() > 0 ? state.data() : nullptr},
      .want = WantLogits::kNone};
  decoder.forward({&sequence, 1});
  return statistics;
}

// A power of two: dividing by it rounds nothing.
float factor_of(double deviation, double most) {
  const double limited = std::max(deviation, most * kLeastDeviation);
  if (!(limited >= 0x1p-60) || !(limited <= 0x1p60)) return 1.0f;
  return static_cast<float>(std::exp2(std::round(0.25 * std::log2(limited))));
}

// Another constant for all scores of a row changes nothing in their softmax, unless scores are
// capped, or a sink joins them.
bool may_center(const AttentionConfig& attention) {
  return attention.soft_cap == 0 && !attention.has_sinks;
}

}  // namespace

void KeyStatistics::add(uint32_t layer, std::span<const float> k) {
  Sums& of = layers_[layer];
  of.sums.resize(k.size());
  of.squares.resize(k.size());
  ++of.n;
  for (size_t d = 0; d < k.size(); ++d) {
    of.sums[d] += k[d];
    of.squares[d] += static_cast<double>(k[d]) * k[d];
  }
}

std::vector<KeyStatistics::Dimension> KeyStatistics::dimensions(uint32_t layer) const {
  const Sums& of = layers_[layer];
  std::vector<Dimension> out;
  for (size_t d = 0; d < of.sums.size(); ++d) {
    const double mean = of.sums[d] / static_cast<double>(of.n);
    const double square = of.squares[d] / static_cast<double>(of.n) - mean * mean;
    out.push_back({mean, std::sqrt(std::max(0.0, square))});
  }
  return out;
}

uint64_t KeyBases::bytes(const ModelConfig& config, KvType type) {
  if (type != KvType::kInt8 && type != KvType::kInt4) return 0;
  uint64_t n_floats = 0;
  for (const LayerConfig& layer : config.layers) {
    if (keeps_heads(layer)) n_floats += uint64_t{3} * layer.attention().kv_dim();
  }
  return n_floats * sizeof(float);
}

KeyBases KeyBases::measure(const Model& model, Backend& backend, KvType type) {
  KeyBases bases;
  const ModelConfig& config = model.config();
  const uint64_t n_bytes = bytes(config, type);
  if (n_bytes == 0) return bases;
  const KeyStatistics statistics = observe(model, backend);
  std::vector<float> floats;
  bases.rotates_ = type == KvType::kInt8;
  bases.layers_.resize(config.layers.size());
  for (uint32_t i = 0; i < config.layers.size(); ++i) {
    if (!keeps_heads(config.layers[i])) continue;
    const AttentionConfig& a = config.layers[i].attention();
    bases.layers_[i] = {.is_measured = true,
                        .head_dim = a.head_dim,
                        .group = a.n_heads / a.n_kv_heads,
                        .offset = floats.size(),
                        .kv_dim = a.kv_dim()};
    auto dimensions = statistics.dimensions(i);
    dimensions.resize(a.kv_dim());
    for (KeyStatistics::Dimension& d : dimensions) {
      if (may_center(a) && std::isfinite(static_cast<float>(d.mean))) continue;
      d = {0, std::hypot(d.mean, d.deviation)};
    }
    std::vector<float> factors;
    for (uint32_t d = 0; d < a.kv_dim(); ++d) {
      const auto head = std::span(dimensions).subspan(d / a.head_dim * a.head_dim, a.head_dim);
      const double most =
          std::ranges::max_element(head, {}, &KeyStatistics::Dimension::deviation)->deviation;
      factors.push_back(factor_of(dimensions[d].deviation, most));
      floats.push_back(static_cast<float>(dimensions[d].mean));
    }
    for (const float factor : factors) floats.push_back(1.0f / factor);
    floats.insert(floats.end(), factors.begin(), factors.end());
  }
  bases.buffer_ = backend.memory().allocate(n_bytes);
  backend.memory().copy_in(bases.buffer_.data(), std::as_bytes(std::span(floats)));
  // A layer that reads the pages of another keeps its queries in that one's basis.
  for (uint32_t i = 0; i < config.layers.size(); ++i) {
    if (const auto lender = lender_of(config.layers[i])) {
      const AttentionConfig& a = config.layers[i].attention();
      bases.layers_[i] = bases.layers_[*lender];
      bases.layers_[i].group = a.n_heads / a.n_kv_heads;
    }
  }
  return bases;
}

HeadBasis KeyBases::keys(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .centers = floats(layer, 0),
          .factors = floats(layer, 1),
          .rotation = rotates_ ? HeadRotation::kForward : HeadRotation::kNone};
}

HeadBasis KeyBases::queries(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .group = layers_[layer].group,
          .factors = floats(layer, 2),
          .rotation = rotates_ ? HeadRotation::kBack : HeadRotation::kNone};
}

HeadBasis KeyBases::values(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .rotation = rotates_ ? HeadRotation::kForward : HeadRotation::kNone};
}

HeadBasis KeyBases::outputs(uint32_t layer) const {
  return {.head_dim = layers_[layer].head_dim,
          .rotation = rotates_ ? HeadRotation::kBack : HeadRotation::kNone};
}

}  // namespace kvik
