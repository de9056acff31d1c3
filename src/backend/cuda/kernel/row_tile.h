#pragma once

#include <cstdint>

namespace kvik::cuda {

// Some rows of a product that meet one matrix. Of no rows: a place in a list that is no tile.
struct RowTile {
  uint32_t matrix;
  uint32_t first, n_rows;  // of out
};

// The rows at most of a tile in each of the kernels of products (kFewRows and those beside it).
inline constexpr uint32_t kTileRows[] = {1, 4, 8, 32, 64};

}  // namespace kvik::cuda
