#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace kvik {

// Returns whether weights of this type have a packed form and kernels.
bool can_pack(ElementType type);

// Returns the bytes of a packed matrix. The type must satisfy can_pack().
uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols);

// Weights in the layout that backends compute with: panels of 32 output columns over all of k, in
// the order in which a product reads them. A decode step thus reads memory sequentially.
//
//   floats        [k][32], an odd k padded with zeros; bf16: [k / 2][32][2], padded likewise
//   fp8, fp8g32   for each block: f32 scales [32], times 256, then bytes [k][32]
//   block types   for each block of the file: f16 scales [32] and minima [32]; then, for each 32 k,
//                 bytes [n][32] and the planes of levels, or codes (tensor/packed_codes.h).
//                 PackedLayout (tensor/block_format.h) says which of these a type has
//
// Planes of the levels of 32 k, for 32 columns:
//
//   8 bits   [8][32][4] bytes: byte j of group g is k = 4g + j
//   4 bits   [4][32][4] bytes: byte j of group g holds k = 4g + j in its low half and 16 + 4g + j
//            in its high half
//   2 bits   [2][32][4] bytes: byte j of group g holds k = 16g + j, 16g + 4 + j, … from its low
//            bits up
//   1 bit    [8][32][4] bits, lowest first: bit j of group g is k = 4g + j
//
// Each stacked matrix (part) begins a new panel. Columns after its end are zero.
class PanelMatrix final : public PackedMatrix {
 public:
  struct Part {
    ElementType type;
    uint32_t first_row, n_rows;
    uint32_t first_panel, n_panels;  // panels counted over all parts
    size_t panel_bytes;
    const std::byte* panels;
    // TensorView::gather, or null if it is empty. Equal orders have the same pointer.
    const uint32_t* gather;
    float scale;  // TensorView::scale
  };

  // Allocates the memory. Every type must satisfy can_pack(). n_cols must be equal for all matrices
  // and a multiple of each type's block size.
  PanelMatrix(std::span<const TensorView> stacked, Memory& memory);

  // Packs the rows that `read` returns. Must be called once, before anything else is used. Only
  // quantized tensors may have a `gather` or a `scale`. Errors: those of `read`, and kCorrupt if
  // the matrix that was read last has an element or a scale that is not a finite number: products
  // quantize activations, which hides it.
  Result<void> fill(const ReadRows& read, ThreadPool& pool);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  size_t bytes() const override { return bytes_.size(); }
  Hash128 source_digest() const override { return source_digest_; }

  std::span<const Part> parts() const { return parts_; }

  // Converts row `row` to floats with the same result as dequantize_row(). The row's part must have
  // no `gather`. out: [n_cols]
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
