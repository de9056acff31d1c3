#include "model/layer_groups.h"

#include <map>

#include "base/check.h"

namespace kvik {
namespace {

// Layers by the span of their attention and their KV heads.
struct Kind {
  uint32_t window;
  LayerGroups::Heads heads;
  friend auto operator<=>(const Kind&, const Kind&) = default;
};
using Spans = std::map<Kind, std::vector<uint32_t>>;

uint32_t n_groups_of(const Spans& spans, uint32_t n_layers_per_page) {
  uint32_t n = 0;
  for (const auto& [kind, layers] : spans) {
    n += (static_cast<uint32_t>(layers.size()) + n_layers_per_page - 1) / n_layers_per_page;
  }
  return n;
}

// The number that wastes least. A group more, which costs a table per sequence, counts as much as
// half an unused layer.
uint32_t best_layers_per_page(const Spans& spans, uint32_t n_layers) {
  uint32_t best = n_layers;
  uint32_t best_cost = UINT32_MAX;
  for (uint32_t n = 1; n <= n_layers; ++n) {
    const uint32_t n_groups = n_groups_of(spans, n);
    if (n_groups > kMaxLayerGroups) continue;
    const uint32_t cost = 2 * n * n_groups + n_groups;
    if (cost >= best_cost) continue;
    best = n;
    best_cost = cost;
  }
  return best;
}

}  // namespace

LayerGroups group_layers(const ModelConfig& config) {
  CHECK(config.layers.size() == config.n_layers && config.n_layers > 0);
  Spans spans;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (!config.layers[i].if_attention()) continue;
    const AttentionConfig& a = config.layers[i].attention();
    spans[{a.window, {a.n_kv_heads, a.head_dim, a.latent.rank}}].push_back(i);
  }
  LayerGroups groups;
  groups.n_layers_per_page = best_layers_per_page(spans, config.n_attention_layers());
  groups.places.resize(config.n_layers);
  for (const auto& [kind, layers] : spans) {
    for (uint32_t i = 0; i < layers.size(); ++i) {
      if (i % groups.n_layers_per_page == 0) {
        groups.windows.push_back(kind.window);
        groups.heads.push_back(kind.heads);
      }
      groups.places[layers[i]] = {groups.n_groups() - 1, i % groups.n_layers_per_page};
    }
  }
  return groups;
}

}  // namespace kvik
