#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensor/element_type.h"

namespace kvik {

// Returns the size of a tensor of that shape, with whole blocks along the last axis; std::nullopt
// if the last axis is not a multiple of the block or the product overflows.
std::optional<uint64_t> bytes_of(ElementType type, std::span<const uint64_t> shape);

uint64_t n_elements_of(std::span<const uint64_t> shape);

// Description of a tensor in a model file.
struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<uint64_t> shape;  // last axis fastest: a matrix is [rows, columns]
  uint64_t n_bytes = 0;

  uint64_t n_elements() const;
};

// Bytes of a tensor in host memory, borrowed. A vector is a matrix of one row.
struct TensorView {
  ElementType type = ElementType::kF32;
  uint64_t n_rows = 0;
  uint64_t n_cols = 0;
  std::span<const std::byte> bytes;
  // Input of each column, if columns are permuted: in a product, column j is multiplied by
  // x[gather[j]]. A permutation of n_cols numbers; empty if columns are in order. Used for weights
  // that GPTQ sorted by activation ("act-order").
  std::span<const uint32_t> gather = {};
  // Factor of all values in addition to those of the blocks (nvfp4).
  float scale = 1;

  // Returns the bytes of one row, which consists of whole blocks.
  uint64_t row_bytes() const;
};

// Returns rows [first, first + n).
TensorView rows_of(const TensorView& matrix, uint64_t first, uint64_t n);

}  // namespace kvik
