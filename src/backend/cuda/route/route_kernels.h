#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"
#include "backend/cuda/kernel/row_tile.h"

// Selects experts and sorts rows by expert. The arithmetic and the order give the same bits as
// model/expert_router.cpp. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kMaxExperts = 1024;  // limited by shared memory, which holds their ranks
// Limited by the lanes of a warp, each of which holds one.
inline constexpr uint32_t kMaxUsedExperts = 32;

// Selects the experts of each row and their weights, as RouteShape describes. Grid: [1, rows], 32
// threads.
struct ChooseTask {
  const float* scores;  // row r begins at scores + r · stride
  size_t stride;
  uint32_t n_rows;
  uint32_t n_experts, n_used;
  uint32_t n_groups, n_groups_used;
  bool is_sigmoid, normalizes, has_shared_gate;
  float weight_scale;
  const float *correction_bias, *factors;  // [n_experts], or null
  uint32_t* chosen;                        // [n_rows, n_used], best expert first
  float* weights;                          // [n_rows, n_used]
  float* shared_weights;                   // [n_rows]
};

// Tiles of at most tile_rows rows of a product whose rows are sorted by expert. The index of a tile
// in the list does not depend on how many rows each expert has. First come the tiles that begin
// with an expert's first row: an entry per expert, or per row if there are fewer rows than experts.
// Then come the tiles that begin further inside an expert's rows: an entry per tile_rows rows.
// Unused entries have no rows.
struct TileList {
  RowTile* tiles;
  uint32_t tile_rows;
};
inline constexpr uint32_t kTileLists = sizeof(kTileRows) / sizeof(kTileRows[0]);

// Counts the rows of each expert, then places them. The rows of an expert keep their order. Grid:
// [1, experts], 32 threads.
struct GroupTask {
  const uint32_t* chosen;  // [n_choices]
  uint32_t n_choices, n_used;
  uint32_t n_experts;
  uint32_t* places;   // [n_choices]: row of the product for each choice
  uint32_t* order;    // [n_choices]: row of the batch for each row of the product
  uint32_t* experts;  // [n_choices]: expert of each row of the product
  TileList tile_lists[kTileLists];
};

struct RouteKernels {
  Kernel<ChooseTask> choose;
  Kernel<GroupTask> group;
};

extern const RouteKernels kRouteKernels;

}  // namespace kvik::cuda
