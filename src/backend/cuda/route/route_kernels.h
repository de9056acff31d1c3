#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/kernel/grid.h"
#include "backend/cuda/kernel/row_tile.h"

// The choice of experts, and rows by expert: the arithmetic and the orders of
// model/expert_router.cpp, to the bit. All pointers are the device's.
namespace kvik::cuda {

inline constexpr uint32_t kMostExperts = 1024;  // whose ranks fit into a block's shared memory
inline constexpr uint32_t kMostUsed = 32;       // a lane of a warp for each

// The experts of each row and how much they count, as RouteShape says. Blocks: [1, rows], 32.
struct ChooseTask {
  const float* scores;  // row r: + r · stride
  size_t stride;
  uint32_t n_rows;
  uint32_t n_experts, n_used;
  uint32_t n_groups, n_groups_used;
  bool is_sigmoid, normalizes, has_shared_gate;
  float weight_scale;
  const float *choice_bias, *factors;  // [n_experts], or null
  uint32_t* chosen;                    // [n_rows, n_used] best first
  float* weights;                      // [n_rows, n_used]
  float* shared_weights;               // [n_rows]
};

// The rows of a product, by expert, in tiles of tile_rows at most, at places of the list that do
// not depend on how many rows an expert has. First come the tiles that begin with the first row of
// an expert, one for each expert, or for each row where rows are fewer; then, one for each
// tile_rows rows, those that begin among these further inside an expert, where one does.
struct TileList {
  RowTile* tiles;
  uint32_t tile_rows;
};
inline constexpr uint32_t kTileLists = sizeof(kTileRows) / sizeof(kTileRows[0]);

// Counts, then places: the rows of an expert keep their order. Blocks: [1, experts], 32.
struct GroupTask {
  const uint32_t* chosen;  // [n_choices]
  uint32_t n_choices, n_used;
  uint32_t n_experts;
  uint32_t* places;   // [n_choices] the row of a product that each choice is
  uint32_t* order;    // [n_choices] the row of the batch that each row of a product is of
  uint32_t* experts;  // [n_choices] its expert
  TileList tile_lists[kTileLists];
};

struct RouteKernels {
  Kernel<ChooseTask> choose;
  Kernel<GroupTask> group;
};

extern const RouteKernels kRouteKernels;

}  // namespace kvik::cuda
