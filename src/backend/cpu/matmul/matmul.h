#pragma once

#include <span>
#include <vector>

#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/layout/panel_matrix.h"
#include "base/thread_pool.h"

namespace kvik::cpu {

enum class MatmulInto { kOverwrite, kAdd };

// Distributes a matrix product to the threads. Owns the packed activations and the intermediate
// sums; these buffers grow to the maximum needed and are never freed.
class Matmul {
 public:
  Matmul(const MatmulKernels& kernels, Memory& memory, ThreadPool& pool);
  ~Matmul();

  // out = x · wᵀ, or out += x · wᵀ. x: [M, K], w: [N, K], out: [M, N]
  void run(Rows x, const PanelMatrix& w, Rows out, MatmulInto into);

  // Implements Backend::grouped_matmul(): out[i] = x[rows[i]] · wᵀ with the matrix of i's group.
  void run_grouped(Rows x, const PanelMatrix& w, const GroupedRows& groups, Rows out);

  // Implements Backend::head_matmul(): multiplies each head of x by its own matrix.
  void run_heads(const HeadRows& x, const PanelMatrix& w, const HeadRows& out);

  // Return the bytes of scratch memory that products need within the limits, and allocate it.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  // Division of the product of some rows and one part of the weights into items of work: strips of
  // panels times blocks of rows.
  struct Cut {
    const PanelMatrix::Part& part;
    uint32_t strip_panels, n_strips;
    uint32_t first_row, n_rows;  // of the packed activations and of out
    uint32_t tile_rows, block_rows;
    uint32_t first_column;  // first column of the part in out
    float* out;             // the group's row 0 and column 0
    size_t first_item;      // index of its first item among those of all cuts
  };
  // Parameters of a cut that depend on the whole product.
  struct CutShape {
    uint32_t k;
    uint32_t n_groups = 1;
    uint32_t first_column = 0;  // first row of the group's matrix among all stacked matrices
    float* out = nullptr;
  };
  struct Strip;  // one item of work: panels of one part, times one block of rows

  // Tiles of consecutive rows of the packed activations. first_tile counts the tiles of all runs.
  struct TileRun {
    uint32_t first_row, n_rows, tile_rows;
    uint32_t first_tile;
  };

  size_t activation_bytes(ActivationFormat format, uint32_t n_rows, uint32_t k) const;
  size_t quantized_bytes(const WorkLimits& limits) const;
  static bool quantizes_once(ActivationFormat format, Rows x, const GroupedRows& groups);
  void quantize_rows(Rows x, const PanelMatrix::Part& part, ActivationFormat format);
  size_t sum_bytes(ElementType weights, uint32_t n_rows) const;
  size_t thread_bytes(const WorkLimits& limits) const;
  void pack_all(Rows x, std::span<const PanelMatrix::Part> parts, const GroupedRows& groups);
  void pack_activations(Rows x, const PanelMatrix::Part& part, const GroupedRows& groups);
  void cut(const PanelMatrix::Part& part, const RowGroup& rows, const CutShape& shape);
  void run_cuts(uint32_t k, size_t out_stride, MatmulInto into);
  void multiply(const Strip& strip, uint32_t thread);

  const MatmulKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  Buffer activations_[kNumActivationFormats];
  Buffer quantized_rows_;       // each row is a tile of its own
  std::vector<Buffer> sums_;    // by thread
  std::vector<TileRun> tiles_;  // tiles of the current product
  std::vector<Cut> cuts_;
  std::vector<uint32_t> head_rows_;  // of the current product of heads: offset of each row
  std::vector<RowGroup> heads_;
  size_t n_items_ = 0;
};

}  // namespace kvik::cpu
