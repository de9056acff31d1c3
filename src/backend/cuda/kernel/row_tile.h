#pragma once

#include <cstdint>

namespace kvik::cuda {

// Rows of a product with one matrix. Without rows: an unused entry of a list.
struct RowTile {
  uint32_t matrix;
  uint32_t first, n_rows;  // of out
};

// Maximum rows of a tile in each product kernel (kFewRows and the others).
inline constexpr uint32_t kTileRows[] = {1, 4, 8, 32, 64};

}  // namespace kvik::cuda
