#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "catalogue/model_config.h"
#include "model/max_layer_groups.h"

namespace kvik {

// The layers of a model, grouped for the KV cache. All layers of a group have the same attention
// span and the same KV heads. A group has at most as many layers as fit into a page, so that pages
// of one size serve all groups; layers of one kind may need several groups.
//
// Examples: Gemma 3 has 22 layers with a sliding window and 4 with full attention, and each page
// holds 4 layers. In Gemma 4, the windowed layers are wider, so that a page holds fewer of them
// than of the others. A group with fewer layers leaves a part of its pages unused; the page size is
// chosen to minimize this. A layer with KV sharing has the place of the layer whose K and V it
// reads.
struct LayerGroups {
  struct Place {
    uint32_t group;
    uint32_t layer;  // within the group
  };
  struct Heads {
    uint32_t n_kv_heads, head_dim;
    uint32_t latent_dim;  // KvGeometry::latent_dim
    friend auto operator<=>(const Heads&, const Heads&) = default;
  };
  std::vector<uint32_t> n_layers;  // number of layers that a page has room for, by group
  std::vector<uint32_t> windows;   // sliding window in tokens, by group; 0: full attention
  std::vector<Heads> heads;        // by group
  std::vector<Place> places;       // by layer of the model; meaningless for a recurrent layer
  // Entries of several tokens (EntriesConfig) lie in pages like the latent K of a layer, some
  // layers' entries in the places of 32 tokens: the first of n_slots() places of those of a page.
  struct EntryPlace {
    Place place;
    uint32_t first_slot = 0;
  };
  std::vector<EntryPlace> entry_places;  // by layer; meaningless for one without entries
  bool has_recurrent_layers = false;  // some layers are recurrent, so that there are no open pages

  uint32_t n_groups() const { return static_cast<uint32_t>(windows.size()); }

  // Returns the number of entries whose last token is in a page, rounded up.
  static uint32_t n_slots(const EntriesConfig& entries);
};

LayerGroups group_layers(const ModelConfig& config);

}  // namespace kvik
