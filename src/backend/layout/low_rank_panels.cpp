#include "backend/layout/low_rank_panels.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

constexpr uint64_t kVectorBytes = 64;

uint32_t padded(uint64_t n) {
  const auto lanes = static_cast<uint32_t>(n / kLowRankLanes + (n % kLowRankLanes != 0));
  return lanes * kLowRankLanes;
}

size_t element_bytes(ElementType type) { return traits(type).block_bytes; }

}  // namespace

uint64_t LowRankPanels::bytes_of(ElementType type, uint64_t n_rows, uint64_t n_cols,
                                 uint32_t rank) {
  const uint64_t bytes =
      (n_cols * padded(rank) + uint64_t{padded(n_rows)} * rank) * element_bytes(type);
  return (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
}

LowRankPanels::LowRankPanels(const LowRankView& view, std::byte* place)
    : type_(view.type),
      scale_(view.scale),
      n_rows_(view.n_rows),
      n_cols_(view.n_cols),
      rank_(view.rank),
      padded_rank_(padded(view.rank)),
      a_bytes_(size_t{view.n_cols} * padded_rank_ * element_bytes(view.type)),
      bytes_(place) {
  CHECK(type_ == ElementType::kF32 || type_ == ElementType::kF16 || type_ == ElementType::kBF16);
  CHECK(rank_ > 0 && n_rows_ > 0 && n_cols_ > 0);
  CHECK(view.a.size() == size_t{rank_} * n_cols_ && view.b.size() == size_t{n_rows_} * rank_);
  std::vector<float> row(padded_rank_);
  for (uint32_t k = 0; k < n_cols_; ++k) {
    for (uint32_t r = 0; r < rank_; ++r) row[r] = view.a[size_t{r} * n_cols_ + k];
    quantize_row(type_, row, bytes_ + size_t{k} * padded_rank_ * element_bytes(type_));
  }
  row.assign(kLowRankLanes, 0.0f);
  std::byte* to = bytes_ + a_bytes_;
  for (uint32_t first = 0; first < n_rows_; first += kLowRankLanes) {
    const uint32_t n = std::min(kLowRankLanes, n_rows_ - first);
    for (uint32_t r = 0; r < rank_; ++r, to += kLowRankLanes * element_bytes(type_)) {
      for (uint32_t i = 0; i < kLowRankLanes; ++i) {
        row[i] = i < n ? view.b[size_t{first + i} * rank_ + r] : 0.0f;
      }
      quantize_row(type_, row, to);
    }
  }
}

const std::byte* LowRankPanels::a(uint32_t k) const {
  return bytes_ + size_t{k} * padded_rank_ * element_bytes(type_);
}

const std::byte* LowRankPanels::b(uint32_t n) const {
  DCHECK(n % kLowRankLanes == 0);
  return bytes_ + a_bytes_ + size_t{n} * rank_ * element_bytes(type_);
}

}  // namespace kvik
