#include "model/layer_groups.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/check.h"
#include "catalogue/kv_source.h"
#include "catalogue/limits.h"
#include "tensor/kv_type.h"

namespace kvik {
namespace {

// Key of the layers that may share a group: attention span and KV heads.
struct Kind {
  uint32_t window;
  LayerGroups::Heads heads;
  // Returns the number of values of a layer's K and V per token, without the scales of the heads.
  uint64_t width() const {
    return uint64_t{heads.n_kv_heads} * heads.head_dim * (heads.latent_dim ? 1 : 2);
  }
  friend auto operator<=>(const Kind&, const Kind&) = default;
};
using Spans = std::map<Kind, std::vector<uint32_t>>;

// Weight of a group with full attention in cost_of(). Its pages are kept for the whole context,
// those of a group with a sliding window only for a few tokens.
constexpr uint64_t kLastingWeight = 16;

uint64_t n_groups_of(const std::vector<uint32_t>& layers, uint64_t n_per_page) {
  return (layers.size() + n_per_page - 1) / n_per_page;
}

// Returns the cost of pages of that width; std::nullopt if they are too narrow for a layer or give
// too many groups. An additional group, which needs a table per sequence, costs as much as half an
// unused layer of the narrowest kind.
std::optional<uint64_t> cost_of(const Spans& spans, uint64_t page_width, uint64_t min_width) {
  uint64_t n_groups = 0;
  uint64_t cost = 0;
  for (const auto& [kind, layers] : spans) {
    const uint64_t n_per_page = page_width / kind.width();
    if (n_per_page == 0) return std::nullopt;
    const uint64_t n = n_groups_of(layers, n_per_page);
    n_groups += n;
    cost += n * (2 * page_width / min_width + 1) * (kind.window == 0 ? kLastingWeight : 1);
  }
  return n_groups <= kMaxLayerGroups ? std::optional(cost) : std::nullopt;
}

// Returns the page width with the lowest cost. Candidates are the widths of 1, 2, … layers of each
// kind.
uint64_t best_page_width(const Spans& spans) {
  uint64_t min_width = UINT64_MAX;
  for (const auto& [kind, layers] : spans) min_width = std::min(min_width, kind.width());
  uint64_t best = 0;
  uint64_t best_cost = UINT64_MAX;
  for (const auto& [kind, layers] : spans) {
    for (uint64_t n = 1; n <= layers.size(); ++n) {
      const auto cost = cost_of(spans, n * kind.width(), min_width);
      if (!cost || *cost >= best_cost) continue;
      best = n * kind.width();
      best_cost = *cost;
    }
  }
  return best;
}

// Places the entries of all layers in as few blocks of kPageTokens places as possible, one after
// the other. Returns the number of blocks. A place's `layer` is its block for now.
uint32_t place_entries(const ModelConfig& config, std::vector<LayerGroups::EntryPlace>& places) {
  places.resize(config.layers.size());
  uint32_t n_used = 0;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    if (!config.layers[i].has_entries()) continue;
    const uint32_t n_slots = LayerGroups::n_slots(config.layers[i].attention().joint.entries);
    const uint32_t free = kPageTokens - n_used % kPageTokens;
    if (free < n_slots) n_used += free;
    places[i] = {{0, n_used / kPageTokens}, n_used % kPageTokens};
    n_used += n_slots;
  }
  return (n_used + kPageTokens - 1) / kPageTokens;
}

}  // namespace

uint32_t LayerGroups::n_slots(const EntriesConfig& entries) {
  return std::max(1u, kPageTokens / entries.n_tokens);
}

LayerGroups group_layers(const ModelConfig& config) {
  const auto n_layers = static_cast<uint32_t>(config.layers.size());
  CHECK(n_layers > 0);
  Spans spans;
  for (uint32_t i = 0; i < n_layers; ++i) {
    const AttentionConfig* own = config.layers[i].if_attention();
    if (!own || own->shared_kv) continue;
    const AttentionConfig& a = *own;
    spans[{a.window, {a.n_kv_heads, a.head_dim, a.latent_dim()}}].push_back(i);
  }
  LayerGroups groups;
  const uint32_t n_entry_blocks = place_entries(config, groups.entry_places);
  for (uint32_t i = 0; i < n_entry_blocks; ++i) {  // numbered after the layers
    const AttentionConfig& a = config.attention();
    spans[{0, {1, a.head_dim, a.head_dim}}].push_back(n_layers + i);
  }
  const uint64_t page_width = best_page_width(spans);
  static_assert(kMaxLayerKinds <= kMaxLayerGroups);
  CHECK(page_width > 0);  // pages as wide as all layers of the widest kind give one group per kind
  groups.has_recurrent_layers = config.has_state();
  groups.places.resize(n_layers + n_entry_blocks);
  for (const auto& [kind, layers] : spans) {
    const auto n_per_page = static_cast<uint32_t>(page_width / kind.width());
    for (uint32_t i = 0; i < layers.size(); ++i) {
      if (i % n_per_page == 0) {
        groups.n_layers.push_back(std::min(n_per_page, static_cast<uint32_t>(layers.size())));
        groups.windows.push_back(kind.window);
        groups.heads.push_back(kind.heads);
      }
      groups.places[layers[i]] = {groups.n_groups() - 1, i % n_per_page};
    }
  }
  for (LayerGroups::EntryPlace& entries : groups.entry_places) {
    if (n_entry_blocks > 0) entries.place = groups.places[n_layers + entries.place.layer];
  }
  groups.places.resize(n_layers);
  for (uint32_t i = 0; i < n_layers; ++i) {
    const auto kv_source = kv_source_of(config.layers[i]);
    if (kv_source) groups.places[i] = groups.places[*kv_source];
  }
  return groups;
}

}  // namespace kvik
