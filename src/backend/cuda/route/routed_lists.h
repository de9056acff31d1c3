#pragma once

#include <algorithm>

#include "backend/cuda/route/route_kernels.h"
#include "base/check.h"

namespace kvik::cuda {

// Result of route(), in device memory: the lists of ChooseTask and GroupTask. The host knows their
// size but not their contents.
struct RoutedLists {
  uint32_t n_rows = 0, n_choices = 0, n_experts = 0;
  uint32_t *chosen = nullptr, *places = nullptr, *order = nullptr, *experts = nullptr;
  float *weights = nullptr, *shared_weights = nullptr;
  TileList tile_lists[kTileLists] = {};

  uint32_t n_used() const { return n_choices / n_rows; }

  // Returns an estimate of the rows per expert, for the choice of a kernel: twice the average, at
  // most one per row of the batch. An expert with more rows has more tiles.
  uint32_t likely_rows() const { return std::min(n_rows, 2 * ceil_div(n_choices, n_experts)); }

  // Returns the list of tiles of at most tile_rows rows.
  const RowTile* tiles(uint32_t tile_rows) const {
    const TileList* const list = std::ranges::find(tile_lists, tile_rows, &TileList::tile_rows);
    CHECK(list != std::end(tile_lists));
    return list->tiles;
  }
  // Returns the number of entries of that list that may be used. No expert has more rows than the
  // batch, so a small batch has no tiles that begin inside an expert's rows.
  uint32_t n_tiles(uint32_t tile_rows) const {
    const uint32_t n_further = n_rows > tile_rows ? ceil_div(n_choices, tile_rows) : 0;
    return std::min(n_choices, n_experts) + n_further;
  }
};

}  // namespace kvik::cuda
