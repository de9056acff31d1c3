#pragma once

#include <span>
#include <vector>

#include "backend/cpu/matmul_kernels.h"
#include "backend/ops.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

// Whether weights of this type have a packed form and kernels.
bool can_pack(ElementType type);

// Weights as the CPU computes with them: panels of 16 output columns, each over all of k, each
// beginning on a multiple of 64 bytes. Inside a panel:
//   f32, f16   [k][16], an odd k padded with zero
//   bf16       [k / 2][16][2], likewise
//   q8_0       quants + 128 as [k / 4][16][4] bytes, then f16 scales [k / 32][16]
//   q4_0       nibbles as [k / 32][4][16][4] bytes: byte j of vector v and column c holds
//              k = 4v + j in its low half and 16 + 4v + j in its high one; then f16 scales
// Every part begins a panel of its own; columns past its end are zero.
class CpuPackedMatrix final : public PackedMatrix {
 public:
  struct Part {
    ElementType type;
    uint32_t first_row, n_rows;
    uint32_t first_panel, n_panels;  // panels counted over all parts
    size_t panel_bytes;
    const std::byte* panels;
  };

  // Every type is one that can_pack, all of the same n_cols, whole blocks of each type.
  CpuPackedMatrix(std::span<const TensorView> stacked, Memory& memory, ThreadPool& pool);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  size_t bytes() const override { return bytes_.size(); }

  std::span<const Part> parts() const { return parts_; }

  // Row `row` as dequantize_row would give it. out: [n_cols]
  void unpack_row(uint32_t row, float* out) const;

 private:
  std::vector<Part> parts_;
  uint32_t n_rows_ = 0;
  uint32_t n_cols_ = 0;
  Buffer bytes_;
};

}  // namespace kvik::cpu
