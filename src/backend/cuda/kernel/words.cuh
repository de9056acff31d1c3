#pragma once

// The few things that nvcc and the host run (tests/host_run) have each in a way of their own. All
// other words of CUDA, threadIdx and __syncthreads() among them, kernels write as they are; the
// host run gives them their meaning.

#include <cstdint>

#ifdef __CUDACC__

namespace kvik::cuda {

// An array in a block's shared memory. Values go in and out by value, so that the host run can
// watch who does what; V may be several elements, aligned as such.
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

// d = a · b + c of one warp, in the fragments of mma.m16n8k32 with signed bytes (PTX ISA, "Matrix
// Fragments for mma.m16n8k32"). Devices before sm_80 do not have it: MatmulKernels::many is not
// started there.
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

// The value of an f16, exact.
__device__ __forceinline__ float f16_value(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// Several elements at once, aligned as such.
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
