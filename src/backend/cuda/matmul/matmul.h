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

// Matrix products on a device. Owns the quantized activations, which grow to the maximum needed and
// are never freed. One thread.
class Matmul {
 public:
  Matmul(Stream& stream, CudaMemory& memory, Tables& tables, const MatmulKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implement the functions of Backend.
  void run(Rows x, const CudaPackedMatrix& w, Rows out, MatmulInto into);
  void run_grouped(Rows x, const CudaPackedMatrix& w, const GroupedRows& groups, Rows out);
  // Products of the rows in the lists: gathered from the rows of the batch, or in order.
  void run_routed(Rows x, const CudaPackedMatrix& w, const RoutedLists& lists, Routed routed,
                  Rows out);
  void run_heads(const HeadRows& x, const CudaPackedMatrix& w, const HeadRows& out);
  void embed(const CudaPackedMatrix& table, std::span<const TokenId> tokens, Rows out);

  // Scratch memory of products within the limits, and its allocation.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  using Part = CudaPackedMatrix::Part;

  // Input rows: those of x, each with n_heads pieces of k columns.
  struct Input {
    const float* x;
    size_t stride, step;
    uint32_t n_heads;
    uint32_t n_rows, k;
  };
  // A product without its weights. groups: the rows of each matrix, which `routed` has if only the
  // device knows them; without either, all rows and matrix 0.
  struct Product {
    MultiplyTask task;
    uint32_t n_matrices;
    std::span<const RowGroup> groups;
    const RoutedLists* routed = nullptr;
  };

  Activations place(uint32_t n_rows, uint32_t k) const;
  static size_t activation_bytes(uint32_t n_rows, uint32_t k);
  void quantise(const Input& in, const uint32_t* gather);
  void multiply(const Input& in, std::span<const Part> parts, const Product& product);
  void launch(const Part& part, const Product& product, uint32_t n_columns);

  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const MatmulKernels& kernels_;
  Buffer activations_;
  std::vector<RowTile> tiles_;
  std::vector<RowGroup> heads_;  // of a product of heads
};

}  // namespace kvik::cuda
