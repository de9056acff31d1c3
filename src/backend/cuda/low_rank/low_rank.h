#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/low_rank/low_rank_kernels.h"

namespace kvik::cuda {

// LowRankRow has no padding (see the assertion in low_rank_kernels.h).
template <>
inline constexpr bool kIsDense<LowRankRow> = true;

// A low-rank update in device memory, in the same layout as on the CPU.
class CudaLowRankMatrix final : public LowRankMatrix {
 public:
  // `place` has low_rank_bytes() bytes of device memory, which must outlive this object.
  CudaLowRankMatrix(const LowRankView& view, Memory& memory, std::byte* place);

  uint32_t n_rows() const override { return weights_.n_rows; }
  uint32_t n_cols() const override { return weights_.n_cols; }
  uint32_t rank() const override { return weights_.rank; }

  const LowRankWeights& weights() const { return weights_; }

 private:
  LowRankWeights weights_;
};

// Low-rank products on a device. Owns the buffer of intermediate sums, which grows to the maximum
// needed and is never freed. One thread.
class LowRank {
 public:
  LowRank(Stream& stream, CudaMemory& memory, Tables& tables, const LowRankKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implements Backend::add_low_rank().
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
