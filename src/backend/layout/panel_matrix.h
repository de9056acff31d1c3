#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace kvik {

// Returns whether weights of this type have a packed form and kernels.
bool can_pack(ElementType type);

// Returns the bytes of a packed matrix of such a type.
uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols);

// Weights in the form that backends compute with: panels of 32 output columns over all of k, in the
// order in which a product reads them, so that a decode step reads memory sequentially.
//
//   floats        [k][32], an odd k padded with zero; bf16: [k / 2][32][2], likewise
//   fp8, fp8g32   for each block: f32 scales [32], times 256, then bytes [k][32]
//   block types   for each block of the file: f16 scales [32] and minima [32]; then for each 32 k
//                 bytes [n][32] and the planes of levels, each as its PackedLayout says
//                 (tensor/block_format.h)
//
// Planes of the levels of 32 k, of 32 columns:
//
//   8 bits   [8][32][4] bytes: byte j of group g is of k = 4g + j
//   4 bits   [4][32][4] bytes: byte j of group g holds k = 4g + j in its low half and 16 + 4g + j
//            in its high one
//   2 bits   [2][32][4] bytes: byte j of group g holds k = 16g + j, 16g + 4 + j, … from its low
//            bits up
//   1 bit    [8][32][4] bits, lowest first: bit j of group g is of k = 4g + j
//
// Every part begins a panel of its own; columns past its end are zero.
class PanelMatrix final : public PackedMatrix {
 public:
  struct Part {
    ElementType type;
    uint32_t first_row, n_rows;
    uint32_t first_panel, n_panels;  // panels counted over all parts
    size_t panel_bytes;
    const std::byte* panels;
    const uint32_t* gather;  // TensorView::gather, null where empty; one pointer for equal ones
    float scale;             // TensorView::scale
  };

  // Allocates the memory. Every type must satisfy can_pack(); n_cols is equal for all and whole
  // blocks of each type.
  PanelMatrix(std::span<const TensorView> stacked, Memory& memory);

  // Packs the rows that `read` returns; called once, first. Only quantized tensors may have a
  // `gather` or a `scale`. Errors: those of `read`.
  Result<void> fill(const ReadRows& read, ThreadPool& pool);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  size_t bytes() const override { return bytes_.size(); }
  Hash128 source_digest() const override { return source_digest_; }

  std::span<const Part> parts() const { return parts_; }

  // Returns row `row` as from dequantize_row(), for a part without `gather`. out: [n_cols]
  void unpack_row(uint32_t row, float* out) const;

 private:
  Result<void> fill_part(size_t number, const ReadRows& read, ThreadPool& pool,
                         std::span<Hash128> digests);
  const uint32_t* keep_order(std::span<const uint32_t> gather);

  std::vector<Part> parts_;
  std::vector<std::vector<uint32_t>> orders_;
  uint32_t n_rows_ = 0;
  uint32_t n_cols_ = 0;
  Buffer bytes_;
  Hash128 source_digest_;
};

}  // namespace kvik
