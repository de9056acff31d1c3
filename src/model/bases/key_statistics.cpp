#include "model/bases/key_statistics.h"

#include <algorithm>
#include <cmath>

#include "backend/backend.h"
#include "model/decoder.h"
#include "model/recurrent/state_layout.h"

namespace kvik {
namespace {

// Number of tokens of the forward pass that measures K.
constexpr uint32_t kMeasuredTokens = 64;
// Tokens with larger ids are rare words, or unused.
constexpr uint32_t kMostCommonToken = 16384;

// Returns a fixed pseudo-random sequence of tokens, which depends on the size of the vocabulary
// and, in a model with a table of positions, on its length.
std::vector<TokenId> measured_tokens(const ModelConfig& config) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < config.n_ctx_within(kMeasuredTokens); ++i) {
    const uint32_t mixed = (i + 1) * 2654435761u;
    tokens.push_back((mixed ^ mixed >> 15) % std::min(config.n_vocab, kMostCommonToken));
  }
  return tokens;
}

}  // namespace

KeyStatistics KeyStatistics::measure(const Model& model, Backend& backend) {
  const std::vector<TokenId> tokens = measured_tokens(model.config());
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
      .want = OutputRows::kNone};
  decoder.forward({&sequence, 1});
  return statistics;
}

uint64_t KeyStatistics::n_dimensions(const ModelConfig& config) {
  uint64_t n = 0;
  for (const LayerConfig& layer : config.layers) {
    if (keeps_heads(layer)) n += layer.attention().kv_dim();
  }
  return n;
}

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

}  // namespace kvik
