#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/ops/matmul.h"

namespace kvik {

inline constexpr uint32_t kLowRankLanes = 16;

// A low-rank update in the layout of the kernels: a as [n_cols][rank, padded to a multiple of 16],
// then b in panels of 16 rows, [rank][16] each, with the last panel padded. Both have the same
// type.
class LowRankPanels final : public LowRankMatrix {
 public:
  // `place` has bytes_of() the view's shape; it must outlive this object.
  LowRankPanels(const LowRankView& view, std::byte* place);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  uint32_t rank() const override { return rank_; }

  static uint64_t bytes_of(ElementType type, uint64_t n_rows, uint64_t n_cols, uint32_t rank);

  ElementType type() const { return type_; }
  float scale() const { return scale_; }
  uint32_t padded_rank() const { return padded_rank_; }
  // Return a from column k on, and b from row n on; n is a multiple of kLowRankLanes.
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
