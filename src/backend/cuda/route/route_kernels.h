#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"
#include "backend/cuda/kernel/row_tile.h"

// Selection of experts, and rows sorted by expert: arithmetic and orders of
// model/expert_router.cpp, bit-identical. All pointers are device pointers.
namespace kvik::cuda {

inline constexpr uint32_t kMostExperts = 1024;  // their ranks fit into shared memory
inline constexpr uint32_t kMostUsed = 32;       // a lane of a warp each

// Experts of each row and their weights, as described in RouteShape. Grid: [1, rows], 32.
struct ChooseTask {
  const float* scores;  // row r: + r · stride
  size_t stride;
  uint32_t n_rows;
  uint32_t n_experts, n_used;
  uint32_t n_groups, n_groups_used;
  bool is_sigmoid, normalizes, has_shared_gate;
  float weight_scale;
  const float *correction_bias, *factors;  // [n_experts], or null
  uint32_t* chosen;                        // [n_rows, n_used] best first
  float* weights;                          // [n_rows, n_used]
  float* shared_weights;                   // [n_rows]
};

// Rows of a product sorted by expert, in tiles of at most tile_rows, at positions of the list that
// do not depend on the number of rows of an expert. First the tiles that begin with the first row
// of an expert, one per expert (or per row if there are fewer rows); then, one per tile_rows rows,
// those that begin further inside an expert.
struct TileList {
  RowTile* tiles;
  uint32_t tile_rows;
};
inline constexpr uint32_t kTileLists = sizeof(kTileRows) / sizeof(kTileRows[0]);

// Counts, then places: rows of an expert keep their order. Grid: [1, experts], 32.
struct GroupTask {
  const uint32_t* chosen;  // [n_choices]
  uint32_t n_choices, n_used;
  uint32_t n_experts;
  uint32_t* places;   // [n_choices] row of the product for each choice
  uint32_t* order;    // [n_choices] row of the batch for each row of the product
  uint32_t* experts;  // [n_choices] its expert
  TileList tile_lists[kTileLists];
};

struct RouteKernels {
  Kernel<ChooseTask> choose;
  Kernel<GroupTask> group;
};

extern const RouteKernels kRouteKernels;

}  // namespace kvik::cuda
