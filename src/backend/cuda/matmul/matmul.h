#pragma once

#include <span>
#include <vector>

#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/matmul/matmul_kernels.h"
#include "backend/cuda/matmul/packed_matrix.h"
#include "backend/cuda/route/routed_lists.h"

namespace kvik::cuda {

enum class MatmulInto { kOverwrite, kAdd };

// Returns whether there are kernels for weights of this type.
bool can_multiply(const MatmulKernels& kernels, ElementType type);

// Matrix products on a device. Owns the buffer of quantized activations, which grows to the maximum
// needed and is never freed. One thread.
class Matmul {
 public:
  Matmul(Stream& stream, CudaMemory& memory, Tables& tables, const MatmulKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implement the functions of Backend.
  void run(Rows x, const CudaPackedMatrix& w, Rows out, MatmulInto into);
  void run_grouped(Rows x, const CudaPackedMatrix& w, const GroupedRows& groups, Rows out);
  // Multiplies rows by the matrices of their experts, as the lists of the last route() say.
  // Routed::kChosen: row i of out is a product of row lists.order[i] of x. Routed::kInOrder: of row
  // i of x.
  void run_routed(Rows x, const CudaPackedMatrix& w, const RoutedLists& lists, Routed routed,
                  Rows out);
  void run_heads(const HeadRows& x, const CudaPackedMatrix& w, const HeadRows& out);
  void embed(const CudaPackedMatrix& table, std::span<const TokenId> tokens, Rows out);

  // Return the bytes of scratch memory that products need within the limits, and allocate it.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  using Part = CudaPackedMatrix::Part;

  // Input rows: n_heads pieces of k columns in each row of x. n_rows counts the pieces.
  struct Input {
    const float* x;
    size_t stride, step;
    uint32_t n_heads;
    uint32_t n_rows, k;
  };
  // A product without its weights. `groups` lists the rows of each matrix. If only the device knows
  // them, `routed` is set instead. With neither, all rows are multiplied by matrix 0.
  struct Product {
    MultiplyTask task;
    uint32_t n_matrices;
    std::span<const RowGroup> groups;
    const RoutedLists* routed = nullptr;
  };

  Activations place(uint32_t n_rows, uint32_t k) const;
  static size_t activation_bytes(uint32_t n_rows, uint32_t k);
  void quantize(const Input& in, const uint32_t* gather);
  void multiply(const Input& in, std::span<const Part> parts, const Product& product);
  void launch(const Part& part, const Product& product, uint32_t n_columns);

  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const MatmulKernels& kernels_;
  Buffer activations_;
  std::vector<RowTile> tiles_;
  // The groups of a product of heads.
  std::vector<RowGroup> heads_;
};

}  // namespace kvik::cuda
