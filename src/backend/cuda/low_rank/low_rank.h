#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/low_rank/low_rank_kernels.h"

namespace kvik::cuda {

// Its members leave nothing between them (low_rank_kernels.h).
template <>
inline constexpr bool kIsDense<LowRankRow> = true;

// A change of low rank in a device's memory, as the CPU's kernels read it.
class CudaLowRankMatrix final : public LowRankMatrix {
 public:
  // place: low_rank_bytes() of the view in the device's memory, borrowed.
  CudaLowRankMatrix(const LowRankView& view, Memory& memory, std::byte* place);

  uint32_t n_rows() const override { return weights_.n_rows; }
  uint32_t n_cols() const override { return weights_.n_cols; }
  uint32_t rank() const override { return weights_.rank; }

  const LowRankWeights& weights() const { return weights_; }

 private:
  LowRankWeights weights_;
};

// Products of low rank on a device. Owns the sums in between, which grow to the most that was
// needed and are never given back. One thread.
class LowRank {
 public:
  LowRank(Stream& stream, CudaMemory& memory, Tables& tables, const LowRankKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // As Backend::add_low_rank() says.
  void add(Rows x, std::span<const LowRankTerm> terms, Rows out);

 private:
  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const LowRankKernels& kernels_;
  Buffer sums_;
  std::vector<LowRankRow> rows_;
};

}  // namespace kvik::cuda
