#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/element_type.h"

namespace kvik {

// Bytes of `n_elements` elements that lie along the last axis in whole blocks;
// std::nullopt where the last axis is no multiple of the block, or the product overflows.
std::optional<uint64_t> bytes_of(ElementType type, std::span<const uint64_t> shape);

uint64_t n_elements_of(std::span<const uint64_t> shape);

// What a model file says of one tensor.
struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<uint64_t> shape;  // last axis fastest: a matrix is [rows, columns]
  uint64_t n_bytes = 0;

  uint64_t n_elements() const;
};

// A tensor's bytes in host memory, borrowed. A vector is a matrix of one row.
struct TensorView {
  ElementType type = ElementType::kF32;
  uint64_t n_rows = 0;
  uint64_t n_cols = 0;
  std::span<const std::byte> bytes;
  // Which activation each column meets, where that is not its own number: column j of a product
  // takes x[gather[j]]. A permutation of n_cols numbers, or empty. Weights that GPTQ has sorted by
  // activation ("act-order") have one.
  std::span<const uint32_t> gather = {};
  // What every value is times, beside what its block says (nvfp4).
  float scale = 1;

  // Bytes of one row; rows are whole blocks.
  uint64_t row_bytes() const;
};

// Rows [first, first + n) of it.
TensorView rows_of(const TensorView& matrix, uint64_t first, uint64_t n);

}  // namespace kvik
