#pragma once

// Quantizes rows of activations in the same way as backend/cpu/matmul/matmul_activations.inl.

#include "backend/cuda/kernel/math.cuh"
#include "backend/cuda/matmul/matmul_kernels.h"

namespace kvik::cuda {
namespace {

// Quantization of one row: see RowLevels of the CPU.
struct RowLevels {
  float scale, inverse, peak, ratio;
};

// Return 2^(i / 4) and 2^(−i / 4).
__device__ __forceinline__ float quarter_power(uint32_t i) {
  return i == 0 ? 1.0f : i == 1 ? 0x1.306fep+0f : i == 2 ? 0x1.6a09e6p+0f : 0x1.ae89fap+0f;
}
__device__ __forceinline__ float inverse_power(uint32_t i) {
  return i == 0 ? 1.0f : i == 1 ? 0x1.ae89fap-1f : i == 2 ? 0x1.6a09e6p-1f : 0x1.306fep-1f;
}

// Returns the power of two of a block: see powers_of_blocks() of the CPU.
__device__ __forceinline__ float power_of_block(float peak, float row_peak, float inverse) {
  return ceil_power_of_2(max_of(peak / row_peak * inverse, 0x1p-24f));
}

// Chooses the scale of a row. peaks: [n_blocks], with zeros in unused entries. The whole warp must
// call. Sixteen lanes add up the noise, each of its own blocks; the other sixteen lanes do the same
// work.
__device__ RowLevels choose_levels(const float* peaks, uint32_t n_blocks) {
  const uint32_t lane = threadIdx.x % kLanes;
  float highest = 0.0f;
  for (uint32_t b = lane; b < n_blocks; b += kLanes) highest = max_of(highest, peaks[b]);
  const float peak = max_of_16(highest);
  if (!(peak >= 0x1p-90f)) return {0.0f, 0.0f, 1.0f, 1.0f};
  float noise[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (uint32_t b = lane; b < n_blocks; b += kLanes) {
    for (uint32_t i = 0; i < 4; ++i) {
      const float power = power_of_block(peaks[b], peak, inverse_power(i));
      noise[i] = fmaf(power, power, noise[i]);
    }
  }
  uint32_t best = 0;
  float least = sum_of_16(noise[0]);
  for (uint32_t i = 1; i < 4; ++i) {
    const float sum = sum_of_16(noise[i]) * quarter_power(i) * quarter_power(i);
    if (sum < least) {
      least = sum;
      best = i;
    }
  }
  return {peak / 127.0f * quarter_power(best), 127.0f / peak * inverse_power(best), peak,
          inverse_power(best)};
}

// Quantizes rows with a warp per block of 32 and a lane per element. The peaks of a row's blocks
// are stored temporarily where the shifts will be.
__global__ void quantize(QuantTask t) {
  __shared__ Shared<float, 4> shared_row;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t n_warps = blockDim.x / 32;
  const uint32_t n_blocks = t.k / kBlock;
  for (uint32_t row = blockIdx.y; row < t.n_rows; row += gridDim.y) {
    const float* x = t.x + row / t.n_heads * t.stride + row % t.n_heads * t.step;
    const size_t first_block = static_cast<size_t>(row) * t.out.n_blocks;
    float* shifts = t.out.shifts + first_block;
    const auto value_at = [&](uint32_t b) {
      const uint32_t k = b * kBlock + lane;
      return x[t.gather ? t.gather[k] : k];
    };
    for (uint32_t b = warp; b < t.out.n_blocks; b += n_warps) {
      float peak = b < n_blocks ? fabsf(value_at(b)) : 0.0f;
      for (uint32_t half = 16; half > 0; half /= 2) {
        peak = max_of(peak, __shfl_xor_sync(kAllLanes, peak, half));
      }
      if (lane == 0) shifts[b] = peak;
    }
    __syncthreads();
    if (warp == 0) {
      const RowLevels chosen = choose_levels(shifts, t.out.n_blocks);
      if (lane == 0) {
        shared_row.set(0, chosen.inverse);
        shared_row.set(1, chosen.peak);
        shared_row.set(2, chosen.ratio);
        t.out.scales[row] = chosen.scale;
      }
    }
    __syncthreads();
    for (uint32_t b = warp; b < n_blocks; b += n_warps) {
      const float power = power_of_block(shifts[b], shared_row.get(1), shared_row.get(2));
      const float inverse = shared_row.get(0) / power;
      const int level = round_to_int(min_of(max_of(value_at(b) * inverse, -127.0f), 127.0f));
      t.out.levels[static_cast<size_t>(row) * t.k + b * kBlock + lane] = static_cast<int8_t>(level);
      int sum = level;  // sum of sixteen levels
      for (uint32_t half = 8; half > 0; half /= 2) sum += __shfl_xor_sync(kAllLanes, sum, half);
      const int second = __shfl_sync(kAllLanes, sum, 16);
      if (lane == 0) {
        shifts[b] = 0x1.8p+23f * power;
        t.out.sums[first_block + b] =
            (static_cast<uint32_t>(sum) & 0xffffu) | static_cast<uint32_t>(second) << 16;
      }
    }
    __syncthreads();
  }
}

}  // namespace
}  // namespace kvik::cuda
