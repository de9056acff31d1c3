#pragma once

#include <cstdint>

namespace kvik::cuda {

// Rows of a product that use one matrix. n_rows is 0 in an unused entry of a list.
struct RowTile {
  uint32_t matrix;
  // Rows [first, first + n_rows) of out.
  uint32_t first, n_rows;
};

// Maximum rows per tile of each product kernel (kFewRows, kManyRows, kFloatRows).
inline constexpr uint32_t kTileRows[] = {1, 4, 8, 32, 64};

}  // namespace kvik::cuda
