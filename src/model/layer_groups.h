#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "catalogue/model_config.h"
#include "model/max_layer_groups.h"

namespace kvik {

// The layers of a model, grouped for the cache: all layers of a group have the same attention span
// and the same KV heads, and no group has more than its n_layers, so that a page of one size serves
// any group. Groups of one span may be several: of gemma3's 22 windowed layers and 4 that see
// everything, 4 go into each page; of gemma4's wider windowed layers fewer than of the others. What
// a smaller group leaves of its pages is not used; the size is chosen so that little is. A layer
// that reads another's K and V stands where that one does.
struct LayerGroups {
  struct Place {
    uint32_t group;
    uint32_t layer;  // within the group
  };
  struct Heads {
    uint32_t n_kv_heads, head_dim;
    uint32_t latent_dim;  // as KvGeometry has it
    friend auto operator<=>(const Heads&, const Heads&) = default;
  };
  std::vector<uint32_t> n_layers;  // that a page of each group has room for
  std::vector<uint32_t> windows;   // of each group; 0: sees everything
  std::vector<Heads> heads;        // of each group
  std::vector<Place> places;       // of each layer of the model; of no meaning for one with a state
  bool has_states = false;         // some layers have states in place of K and V: no open pages

  uint32_t n_groups() const { return static_cast<uint32_t>(windows.size()); }
};

LayerGroups group_layers(const ModelConfig& config);

}  // namespace kvik
