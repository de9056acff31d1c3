#pragma once

#include <algorithm>

#include "backend/cuda/route/route_kernels.h"
#include "base/check.h"

namespace kvik::cuda {

// What a route() leaves in the device's memory, as ChooseTask and GroupTask have it. The host knows
// how much that is, but not what it says.
struct RoutedLists {
  uint32_t n_rows = 0, n_choices = 0, n_experts = 0;
  uint32_t *chosen = nullptr, *places = nullptr, *order = nullptr, *experts = nullptr;
  float *weights = nullptr, *shared_weights = nullptr;
  TileList tile_lists[kTileLists] = {};

  uint32_t n_used() const { return n_choices / n_rows; }

  // Rows of an expert to choose a kernel for: twice as many as on average, at most one of each row
  // of the batch. An expert with more of them has more tiles.
  uint32_t likely_rows() const { return std::min(n_rows, 2 * ceil_div(n_choices, n_experts)); }

  const RowTile* tiles(uint32_t tile_rows) const {
    const TileList* const list = std::ranges::find(tile_lists, tile_rows, &TileList::tile_rows);
    CHECK(list != std::end(tile_lists));
    return list->tiles;
  }
  // At the front of that list, behind which none can be: an expert has no more rows than the batch.
  uint32_t n_tiles(uint32_t tile_rows) const {
    const uint32_t n_further = n_rows > tile_rows ? ceil_div(n_choices, tile_rows) : 0;
    return std::min(n_choices, n_experts) + n_further;
  }
};

}  // namespace kvik::cuda
