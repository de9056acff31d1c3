#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace kvik {

// Whether weights of this type have a packed form and kernels.
bool can_pack(ElementType type);

// Bytes of a packed matrix of such a type.
uint64_t packed_bytes(ElementType type, uint64_t n_rows, uint64_t n_cols);

// Weights as the CPU computes with them: panels of 32 output columns, each over all of k, in the
// order in which a product reads them, so that a decoding step is one walk through memory:
//   f32, f16   [k][32], an odd k padded with zero
//   bf16       [k / 2][32][2], likewise
//   q8_0       for each block of 32 k: f16 scales [32], then quants + 128 as [8][32][4] bytes
//   q4_0       for each block of 32 k: f16 scales [32], then nibbles as [4][32][4] bytes: byte j of
//              group g and column c holds k = 4g + j in its low half and 16 + 4g + j in its high
//              one
//   q4_k       for each super-block of 256 k: f16 scales [32] and minima [32]; then for each 32 k
//              bytes: scales [32] and minima [32], and nibbles as in q4_0
//   q5_k       likewise; behind the nibbles the fifth bits, [8][32][4] bits, lowest first
//   q6_k       for each super-block: f16 scales [32]; then for each 32 k: signed bytes [2][32], the
//              scales of 16 k each, nibbles as [4][32][4] bytes as in q4_0, and the upper two bits
//              as [2][32][4] bytes: byte j of group g holds k = 16g + j, 16g + 4 + j, … from its
//              low bits up
//   q4_1       as q4_0 with f16 minima [32] behind the scales
//   q5_0, q5_1 as q4_0 and q4_1; behind the nibbles the fifth bits as in q5_k
//   iq4_nl     as q4_0
//   mxfp4      for each block of 32 k: bytes [32], exponents of scales, and nibbles as in q4_0
//   nvfp4      for each block of 32 k: bytes [2][32], scales of 16 k each, and nibbles as in q4_0
//   iq4_xs     for each super-block: f16 scales [32]; then for each 32 k: signed bytes [32],
//              scales, and nibbles as in q4_0
//   q2_k       for each super-block: f16 scales [32] and minima [32]; then for each 32 k: bytes
//              [2][32] of 16 k each, a scale in the low half and a minimum in the high one, and
//              levels as q6_k's upper bits
//   q3_k       for each super-block: f16 scales [32], with the opposite sign; then for each 32 k:
//              bytes [2][32], the scales of 16 k each and 32 more, the levels' lower two bits as
//              q6_k's upper ones, and bits as in q5_k, set where a level is below zero
//   int4 groups  for each group: f16 scales [32]; then for each 32 k: bytes [32], 128 less the
//              group's zero, and nibbles as in q4_0
//   int8 groups  for each group: f16 scales [32] and f16 numbers [32], 128 less the zero; then for
//              each 32 k quants as [8][32][4] bytes
//   fp8, fp8g32  for each block: f32 scales [32], times 256, then bytes [k][32]
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

  // Takes the memory. Every type is one that can_pack, all of the same n_cols, whole blocks of each
  // type.
  PanelMatrix(std::span<const TensorView> stacked, Memory& memory);

  // Packs what `read` gives; once, before anything else is asked. Only quantised tensors may have a
  // `gather` or a `scale`. Errors: those of `read`.
  Result<void> fill(const ReadRows& read, ThreadPool& pool);

  uint32_t n_rows() const override { return n_rows_; }
  uint32_t n_cols() const override { return n_cols_; }
  size_t bytes() const override { return bytes_.size(); }
  Hash128 source_digest() const override { return source_digest_; }

  std::span<const Part> parts() const { return parts_; }

  // Row `row` as dequantize_row would give it, of a part without `gather`. out: [n_cols]
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
