#pragma once

// Quantization of heads, and the rotation before int4 quantization.

#include "backend/cuda/attention/attention_kernels.h"
#include "backend/cuda/kernel/math.cuh"

namespace kvik::cuda {
namespace {

// Bytes of int8 V in sixteen dimensions of a page.
constexpr uint32_t kValueBlockBytes = kPageTokens * kLanes;

struct QuantScale {
  float scale;    // value of one step
  float inverse;  // steps per unit: 1 / scale
};

// Returns the quantum with n steps from zero to `peak`: see attention_int8.inl.
__device__ __forceinline__ QuantScale quantum_for(float peak, float n) {
  if (!(peak >= 0x1p-110f)) return {0.0f, 0.0f};
  const float limited = peak < 0x1p127f ? peak : 0x1p127f;
  return {limited / n, n / limited};
}

__device__ __forceinline__ int level_of(float x, float inverse) {
  return round_to_int(min_of(max_of(x * inverse, -127.0f), 127.0f));
}

// One head in shared memory, which a thread block works on.
using SharedHead = Shared<float, kMaxHeadDim>;

// Finds the largest magnitude in dimensions [begin, end) and stores it at peaks[at]. Ignores NaN.
// All threads of the block must call; the first warp does the work. Other elements of `peaks` may
// be read at the same time.
template <class Peaks>
__device__ void find_peak(SharedHead& x, uint32_t begin, uint32_t end, Peaks& peaks, uint32_t at) {
  if (threadIdx.x >= 32) return;
  float peak = 0.0f;
  for (uint32_t d = begin + threadIdx.x; d < end; d += 32) {
    peak = max_of(fabsf(x.get(d)), peak);
  }
  for (uint32_t half = 16; half > 0; half /= 2) {
    peak = max_of(peak, __shfl_xor_sync(kAllLanes, peak, half));
  }
  if (threadIdx.x == 0) peaks.set(at, peak);
}

// Returns the number of dimensions that are rotated together: the largest power of two that divides
// head_dim, but at most 512.
__device__ __forceinline__ uint32_t rotated_dims(uint32_t head_dim) {
  return lesser(head_dim & (0u - head_dim), 512u);
}
// Return the factor of a rotation, and the factor by which two rotations multiply: see
// attention_rotate.inl.
__device__ __forceinline__ float rotation_factor(uint32_t head_dim) {
  float factor = 1.0f;
  for (uint32_t n = rotated_dims(head_dim); n >= 4; n /= 4) factor *= 0.5f;
  return factor;
}
__device__ __forceinline__ float double_rotation_factor(uint32_t head_dim) {
  const float factor = rotation_factor(head_dim);
  return factor * factor * static_cast<float>(rotated_dims(head_dim));
}

// Rotates [first, first + n_dims) of x in place, by butterflies of growing stride. All threads of
// the block must call, after a barrier that follows the writes to x. Ends with a barrier.
__device__ void rotate(SharedHead& x, uint32_t first, uint32_t n_dims) {
  const uint32_t n = rotated_dims(n_dims);
  const float factor = rotation_factor(n_dims);
  for (uint32_t d = threadIdx.x; d < n_dims; d += blockDim.x) {
    x.set(first + d, x.get(first + d) * factor);
  }
  __syncthreads();
  for (uint32_t stride = 1; stride < n; stride *= 2) {
    for (uint32_t pair = threadIdx.x; pair < n_dims / 2; pair += blockDim.x) {
      const uint32_t i = first + pair / stride * 2 * stride + pair % stride;
      const float a = x.get(i);
      const float b = x.get(i + stride);
      x.set(i, a + b);
      x.set(i + stride, a - b);
    }
    __syncthreads();
  }
}

// Rotates the K of one token: the latent part and the rest separately.
__device__ void rotate_key(const PageLayout& layout, SharedHead& x) {
  rotate(x, 0, layout.value_dim);
  if (layout.value_dim < layout.head_dim) {
    rotate(x, layout.value_dim, layout.head_dim - layout.value_dim);
  }
}

// Converts four nibbles, in the low halves of bytes, to signed bytes with the odd numbers −15 … 15.
__device__ __forceinline__ uint32_t odd_levels(uint32_t nibbles) {
  return ((nibbles << 1 | 0x80808080u) - 0x0f0f0f0fu) ^ 0x80808080u;
}

}  // namespace
}  // namespace kvik::cuda
