#include "tensor/tensor_view.h"

#include <functional>
#include <numeric>

namespace kvik {

std::optional<uint64_t> bytes_of(ElementType type, std::span<const uint64_t> shape) {
  const ElementTraits& t = traits(type);
  if (shape.empty() || shape.back() % t.block_elements != 0) return std::nullopt;
  uint64_t bytes;
  const uint64_t n_blocks = shape.back() / t.block_elements;
  if (__builtin_mul_overflow(n_blocks, uint64_t{t.block_bytes}, &bytes) ||
      __builtin_add_overflow(bytes, uint64_t{t.row_header_bytes}, &bytes)) {
    return std::nullopt;
  }
  for (const uint64_t n : shape.first(shape.size() - 1)) {
    if (__builtin_mul_overflow(bytes, n, &bytes)) return std::nullopt;
  }
  return bytes;
}

uint64_t n_elements_of(std::span<const uint64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies());
}

uint64_t TensorInfo::n_elements() const { return n_elements_of(shape); }

uint64_t TensorView::row_bytes() const {
  const ElementTraits& t = traits(type);
  return t.row_header_bytes + n_cols / t.block_elements * t.block_bytes;
}

TensorView rows_of(const TensorView& matrix, uint64_t first, uint64_t n) {
  TensorView rows = matrix;
  rows.n_rows = n;
  rows.bytes = matrix.bytes.subspan(first * matrix.row_bytes(), n * matrix.row_bytes());
  return rows;
}

}  // namespace kvik
