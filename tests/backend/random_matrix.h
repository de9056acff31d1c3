#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/backend.h"
#include "base/check.h"
#include "support/weight_types.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/tensor_view.h"

namespace kvik::testing {

inline std::vector<float> random_floats(size_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(generator);
  return values;
}

// A matrix as stored in a file, and the values of its elements.
struct FileMatrix {
  ElementType type;
  uint32_t n_rows, n_cols;
  std::vector<std::byte> bytes;
  std::vector<float> values;

  TensorView view() const { return {type, n_rows, n_cols, bytes}; }
};

inline FileMatrix matrix_of(ElementType type, uint32_t n_rows, uint32_t n_cols,
                            const std::vector<float>& values) {
  FileMatrix m{type, n_rows, n_cols, {}, std::vector<float>(values.size())};
  const size_t row_bytes = TensorView{type, n_rows, n_cols, {}}.row_bytes();
  m.bytes.resize(n_rows * row_bytes);
  for (size_t row = 0; row < n_rows; ++row) {
    std::byte* at = m.bytes.data() + row * row_bytes;
    quantize_row(type, {values.data() + row * n_cols, n_cols}, at);
    dequantize_row(type, at, {m.values.data() + row * n_cols, n_cols});
  }
  return m;
}

inline FileMatrix random_matrix(ElementType type, uint32_t n_rows, uint32_t n_cols, uint32_t seed) {
  return matrix_of(type, n_rows, n_cols, random_floats(size_t{n_rows} * n_cols, seed));
}

// Rows in the backend's memory.
struct OwnedRows {
  OwnedRows(Memory& memory, uint32_t n_rows, uint32_t n_cols)
      : buffer(memory.allocate(size_t{n_rows} * n_cols * sizeof(float))),
        rows{buffer.floats(), n_rows, n_cols, n_cols} {}
  OwnedRows(Memory& memory, uint32_t n_rows, uint32_t n_cols, const std::vector<float>& values)
      : OwnedRows(memory, n_rows, n_cols) {
    CHECK(values.size() == size_t{n_rows} * n_cols);
    memory.copy_in(buffer.data(), std::as_bytes(std::span(values)));
  }

  std::vector<float> values() const {
    return {rows.data, rows.data + size_t{rows.n_rows} * rows.n_cols};
  }

  Buffer buffer;
  Rows rows;
};

inline bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace kvik::testing
