#include "backend/cuda/kernel/launch.cuh"
#include "backend/cuda/kernel/math.cuh"
#include "backend/cuda/kernel/words.cuh"
#include "backend/cuda/low_rank/low_rank_kernels.h"

namespace kvik::cuda {
namespace {

__device__ __forceinline__ float element(LowRankType type, const uint8_t* p, size_t i) {
  switch (type) {
    case LowRankType::kF16:
      return f16_value(reinterpret_cast<const uint16_t*>(p)[i]);
    case LowRankType::kBF16:
      return bf16_value(reinterpret_cast<const uint16_t*>(p)[i]);
    case LowRankType::kF32:
      break;
  }
  return reinterpret_cast<const float*>(p)[i];
}

// sums = scale · a · x, with a thread per rank. The thread adds up the pieces of k one after
// another.
__global__ void down(DownTask t) {
  for (uint32_t i = blockIdx.y; i < t.n_rows; i += gridDim.y) {
    const LowRankRow row = t.rows[i];
    const LowRankWeights& w = row.weights;
    for (uint32_t r = threadIdx.x; r < w.rank; r += blockDim.x) {
      float sum = 0.0f;
      for (uint32_t begin = 0; begin < w.n_cols; begin += kLowRankPiece) {
        const uint32_t end = lesser(begin + kLowRankPiece, w.n_cols);
        float part = 0.0f;
        for (uint32_t k = begin; k < end; ++k) {
          const float weight = element(w.type, w.a, static_cast<size_t>(k) * w.padded_rank + r);
          part = fmaf(row.x[k], weight, part);
        }
        sum = begin == 0 ? part : sum + part;
      }
      t.sums[i * t.sum_stride + r] = w.scale * sum;
    }
  }
}

// Adds b · sums to out, with a thread per column.
__global__ void up(UpTask t) {
  const uint32_t column = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t i = blockIdx.y; i < t.n_rows; i += gridDim.y) {
    const LowRankRow row = t.rows[i];
    const LowRankWeights& w = row.weights;
    if (column >= w.n_rows) continue;
    const size_t panel = static_cast<size_t>(column / kLanes) * w.rank * kLanes;
    float delta = 0.0f;
    for (uint32_t r = 0; r < w.rank; ++r) {
      const float weight = element(w.type, w.b, panel + r * kLanes + column % kLanes);
      delta = fmaf(t.sums[i * t.sum_stride + r], weight, delta);
    }
    row.out[column] = row.out[column] + delta;
  }
}

}  // namespace

const LowRankKernels kLowRankKernels = {
    .down = kernel_of<DownTask, down>("low_rank down"),
    .up = kernel_of<UpTask, up>("low_rank up"),
};

}  // namespace kvik::cuda
