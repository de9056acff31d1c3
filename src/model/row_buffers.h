#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace kvik {

// Allocates rows of floats in a backend's memory and owns them, or only counts their bytes, so that
// the same code determines what is planned and what is allocated.
class RowBuffers {
 public:
  explicit RowBuffers(Memory* memory) : memory_(memory) {}  // null: only counts

  // Returns [n_rows, n_cols] of f32; without data if this object only counts.
  Rows take(uint32_t n_rows, uint32_t n_cols) {
    const size_t n_bytes = size_t{n_rows} * n_cols * sizeof(float);
    n_bytes_ += n_bytes;
    if (!memory_ || n_bytes == 0) return {nullptr, n_rows, n_cols, n_cols};
    buffers_.push_back(memory_->allocate(n_bytes));
    return {buffers_.back().floats(), n_rows, n_cols, n_cols};
  }
  // Counts bytes that are allocated elsewhere for the same rows.
  void count(uint64_t n_bytes) { n_bytes_ += n_bytes; }

  uint64_t bytes() const { return n_bytes_; }

 private:
  Memory* memory_;
  std::vector<Buffer> buffers_;
  uint64_t n_bytes_ = 0;
};

}  // namespace kvik
