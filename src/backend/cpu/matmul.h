#pragma once

#include <vector>

#include "backend/cpu/packed_matrix.h"

namespace kvik::cpu {

enum class MatmulInto { kOverwrite, kAdd };

// Spreads a matrix product over the threads. Owns the packed activations and the sums in between;
// both grow to the largest product seen and are never given back.
class Matmul {
 public:
  Matmul(const MatmulKernels& kernels, Memory& memory, ThreadPool& pool);
  ~Matmul();

  // out = x · wᵀ, or out += x · wᵀ. x: [M, K], w: [N, K], out: [M, N]
  void run(Rows x, const CpuPackedMatrix& w, Rows out, MatmulInto into);

  // Bytes that products within the limits need, and taking them now.
  uint64_t scratch_bytes(const WorkLimits& limits) const;
  void reserve(const WorkLimits& limits);

 private:
  struct Cut;
  struct Strip;  // one item of work: some panels of one part, for one block of rows

  size_t activation_bytes(ActivationFormat format, uint32_t n_rows, uint32_t k) const;
  static size_t sum_bytes(uint32_t n_rows);
  static size_t thread_bytes(const WorkLimits& limits);
  const WeightKernels& kernels_of(ElementType type) const;
  void pack_activations(Rows x, ActivationFormat format);
  size_t cut(const CpuPackedMatrix& w, uint32_t n_rows);
  void multiply(const Strip& strip, uint32_t thread);

  const MatmulKernels& kernels_;
  Memory& memory_;
  ThreadPool& pool_;
  Buffer activations_[kNumActivationFormats];
  std::vector<Buffer> sums_;  // by thread
  std::vector<Cut> cuts_;     // of the product at hand, by part
};

}  // namespace kvik::cpu
