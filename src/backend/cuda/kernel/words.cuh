#pragma once

// The few definitions that differ between nvcc and the host run (tests/host_run). Kernels use all
// other CUDA names, such as threadIdx and __syncthreads(), directly, and the host run defines them.

#include <cstdint>

#ifdef __CUDACC__

namespace kvik::cuda {

// An array in shared memory. Elements are read and written by value, so that the host run can
// detect races. V may consist of several elements; it must be aligned to its size.
template <class T, uint32_t kSize>
struct Shared {
  alignas(16) T values[kSize];

  __device__ __forceinline__ T get(uint32_t i) const { return values[i]; }
  __device__ __forceinline__ void set(uint32_t i, T value) { values[i] = value; }
  template <class V>
  __device__ __forceinline__ V get_as(uint32_t i) const {
    return *reinterpret_cast<const V*>(values + i);
  }
  template <class V>
  __device__ __forceinline__ void set_as(uint32_t i, V value) {
    *reinterpret_cast<V*>(values + i) = value;
  }
};

// Computes d = a · b + c for one warp, with the fragments of mma.m16n8k32 for signed bytes (PTX
// ISA, "Matrix Fragments for mma.m16n8k32"). Not available before sm_80, where WeightKernels::many
// is not launched.
__device__ __forceinline__ void multiply_fragments(int (&d)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2], const int (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]),
        "r"(c[2]), "r"(c[3]));
#else
  __trap();
#endif
}

// Returns the value of an f16, which is exact.
__device__ __forceinline__ float f16_value(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// Reads several elements at once. p must be aligned to sizeof(V).
template <class V>
__device__ __forceinline__ V read_as(const void* p) {
  return *static_cast<const V*>(p);
}

}  // namespace kvik::cuda

#else

namespace kvik::cuda {

using host_run::f16_value;
using host_run::multiply_fragments;
using host_run::read_as;
using host_run::Shared;

}  // namespace kvik::cuda

#endif
