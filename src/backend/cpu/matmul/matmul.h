#pragma once

#include <span>
#include <vector>

#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/layout/panel_matrix.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

enum class MatmulInto { kOverwrite, kAdd };

// Spreads a matrix product over the threads. Owns the packed activations and the sums in between;
// both grow to the largest product seen and are never given back.
class Matmul {
 public:
  Matmul(const MatmulKernels& kernels, Memory& memory, ThreadPool& pool);
  ~Matmul();

  // out = x · wᵀ, or out += x · wᵀ. x: [M, K], w: [N, K], out: [M, N]
  void run(Rows x, const PanelMatrix& w, Rows out, MatmulInto into);

  // out[i] = x[rows[i]] · wᵀ with the matrix of i's group alone, as ops.h says.
  void run_grouped(Rows x, const PanelMatrix& w, const GroupedRows& groups, Rows out);

  // Each head of x with the matrix of its own, as ops.h says.
  void run_heads(const HeadRows& x, const PanelMatrix& w, const HeadRows& out);

  // Bytes that products within the limits need, and taking them now.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  // How some rows' product with one part of the weights is cut into items: strips of panels, by
  // blocks of rows.
  struct Cut {
    const PanelMatrix::Part& part;
    uint32_t strip_panels, n_strips;
    uint32_t first_row, n_rows;  // of the packed activations and of out
    uint32_t tile_rows, block_rows;
    uint32_t first_column;  // of out
    float* out;             // row 0 and column 0 of it
    size_t first_item;      // counted over all cuts
  };
  // What a cut knows of the whole product.
  struct CutShape {
    uint32_t k;
    uint32_t n_groups = 1;
    uint32_t first_column = 0;  // of the group's matrix among all that are stacked
    float* out = nullptr;
  };
  struct Strip;  // one item of work: some panels of one part, for one block of rows

  // Some rows of x behind each other: their tiles, from `first_tile` on.
  struct TileRun {
    uint32_t first_row, n_rows, tile_rows;
    uint32_t first_tile;
  };

  size_t activation_bytes(ActivationFormat format, uint32_t n_rows, uint32_t k) const;
  size_t quantised_bytes(const WorkLimits& limits) const;
  static bool quantises_once(ActivationFormat format, Rows x, const GroupedRows& groups);
  void quantise_rows(Rows x, const PanelMatrix::Part& part, ActivationFormat format);
  static size_t sum_bytes(uint32_t n_rows);
  static size_t thread_bytes(const WorkLimits& limits);
  void pack_all(Rows x, std::span<const PanelMatrix::Part> parts, const GroupedRows& groups);
  void pack_activations(Rows x, const PanelMatrix::Part& part, const GroupedRows& groups);
  void cut(const PanelMatrix::Part& part, const RowGroup& rows, const CutShape& shape);
  void run_cuts(uint32_t k, size_t out_stride, MatmulInto into);
  void multiply(const Strip& strip, uint32_t thread);

  const MatmulKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  Buffer activations_[kNumActivationFormats];
  Buffer quantised_rows_;       // each a tile of its own
  std::vector<Buffer> sums_;    // by thread
  std::vector<TileRun> tiles_;  // of the product at hand
  std::vector<Cut> cuts_;
  std::vector<uint32_t> head_rows_;  // of a product of heads
  std::vector<RowGroup> heads_;
  size_t n_items_ = 0;
};

}  // namespace kvik::cpu
