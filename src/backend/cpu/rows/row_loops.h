#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backend/cpu/scratch.h"
#include "backend/ops/rows.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Columns per item of work of an elementwise operation; a multiple of the lanes.
inline constexpr uint32_t kPieceColumns = 4096;

inline float* row_of(Rows x, size_t row) { return x.data + row * x.stride; }

// Calls body(row) for each row of x, on several threads if there are enough floats; each float
// counts as `work` of them.
template <class Body>
void for_rows(ThreadPool& pool, Rows x, const Body& body, size_t work = 1) {
  if (x.n_rows == 1 || size_t{x.n_rows} * x.n_cols * work < kFloatsWorthSharing) {
    for (uint32_t row = 0; row < x.n_rows; ++row) body(row);
  } else {
    pool.run(x.n_rows, [&](size_t row, uint32_t) { body(row); });
  }
}

// Calls body(row, first column, number of columns) for pieces that cover all of x, on several
// threads if there are enough floats.
template <class Body>
void for_pieces(ThreadPool& pool, Rows x, const Body& body) {
  const uint32_t per_row = x.n_cols / kPieceColumns + (x.n_cols % kPieceColumns != 0);
  const auto piece = [&](size_t item, uint32_t) {
    const uint32_t first = static_cast<uint32_t>(item % per_row) * kPieceColumns;
    body(item / per_row, first, std::min(kPieceColumns, x.n_cols - first));
  };
  const size_t n_items = size_t{x.n_rows} * per_row;
  if (size_t{x.n_rows} * x.n_cols < kFloatsWorthSharing) {
    for (size_t item = 0; item < n_items; ++item) piece(item, 0);
  } else {
    pool.run(n_items, piece);
  }
}

}  // namespace kvik::cpu
