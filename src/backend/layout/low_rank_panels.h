#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/ops/matmul.h"

namespace kvik {

inline constexpr uint32_t kLowRankLanes = 16;

// a and b in kernel layout: a as [n_cols][ranks, padded to whole lanes], b in panels of 16 rows,
// [rank][16] each, the last one padded; both of one type.
class LowRankPanels final : public LowRankMatrix {
 public:
  // place: bytes_of() the view, borrowed.
  LowRankPanels(const LowRankView& view, std::byte* place);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  uint32_t rank() const override { return rank_; }

  static uint64_t bytes_of(ElementType type, uint64_t n_rows, uint64_t n_cols, uint32_t rank);

  ElementType type() const { return type_; }
  float scale() const { return scale_; }
  uint32_t padded_rank() const { return padded_rank_; }
  // Return a from column k on, and b from row n on, a multiple of the lanes.
  const std::byte* a(uint32_t k) const;
  const std::byte* b(uint32_t n) const;

 private:
  ElementType type_;
  float scale_;
  uint32_t n_rows_, n_cols_, rank_, padded_rank_;
  size_t a_bytes_;
  std::byte* bytes_;
};

}  // namespace kvik
