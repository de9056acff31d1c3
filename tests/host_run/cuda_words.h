#pragma once

// The words of CUDA that kernels use, as host C++: src/backend/cuda/kernel/words.cuh takes them
// from here where nvcc does not compile it.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "host_run/grid.h"
#include "host_run/shared_memory.h"
#include "tensor/half.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)

#define threadIdx (::kvik::host_run::current->thread)
#define blockIdx (::kvik::host_run::block_index)
#define blockDim (::kvik::host_run::block_size)
#define gridDim (::kvik::host_run::grid_size)

#define __syncthreads() ::kvik::host_run::wait_for_block(__LINE__)
#define __syncwarp() ::kvik::host_run::sync_warp(__LINE__)
#define __shfl_sync(mask, value, lane) ::kvik::host_run::shuffle(mask, value, lane, __LINE__)
#define __shfl_xor_sync(mask, value, lanes) \
  ::kvik::host_run::shuffle(mask, value, ::kvik::host_run::current->lane() ^ (lanes), __LINE__)
// The lane itself where there is none so far down.
#define __shfl_down_sync(mask, value, n) \
  ::kvik::host_run::shuffle(mask, value, ::kvik::host_run::lane_below(n), __LINE__)
#define __ballot_sync(mask, predicate) ::kvik::host_run::ballot(mask, predicate, __LINE__)
#define __any_sync(mask, predicate) (::kvik::host_run::ballot(mask, predicate, __LINE__) != 0)
#define __all_sync(mask, predicate) (::kvik::host_run::ballot(mask, predicate, __LINE__) == ~0u)

namespace kvik::host_run {

// Kernels here use whole warps alone.
inline void check_mask(uint32_t mask) {
  if (mask != ~0u) stop("an operation of part of a warp");
}

inline void sync_warp(int line) {
  exchange({"__syncwarp", line}, {});
  ++current->n_warp_syncs;
}

inline uint32_t lane_below(uint32_t n) {
  return current->lane() + n < kWarpLanes ? current->lane() + n : current->lane();
}

template <class T>
T shuffle(uint32_t mask, T value, uint32_t from, int line) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  check_mask(mask);
  const auto& words = exchange({"a shuffle", line}, {std::bit_cast<uint32_t>(value)});
  return std::bit_cast<T>(words[from % kWarpLanes][0]);
}

inline uint32_t ballot(uint32_t mask, int predicate, int line) {
  check_mask(mask);
  const auto& words = exchange({"a vote", line}, {predicate != 0 ? 1u : 0u});
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kWarpLanes; ++i) bits |= words[i][0] << i;
  return bits;
}

// D = A · B + C of mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32, by the fragments that the PTX
// ISA gives to each lane (9.7.14.5.9, "Matrix Fragments for mma.m16n8k32"): with g = lane / 4 and
// t = lane % 4, byte j of
//   a[i] is A[g + 8 (i % 2)][4 t + j + 16 (i / 2)], of b[i] B[4 t + j + 16 i][g], and
//   c[i] and d[i] are [g + 8 (i / 2)][2 t + i % 2].
void multiply_fragments(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        const int (&c)[4], int line = __builtin_LINE());

// The functions that words.cuh defines for nvcc.
inline float f16_value(uint16_t bits) { return f16_to_f32(bits); }

template <class V>
V read_as(const void* p) {
  if (reinterpret_cast<uintptr_t>(p) % alignof(V) != 0) {
    stop("a read of several elements at once that is not aligned");
  }
  V value;
  std::memcpy(&value, p, sizeof(V));
  return value;
}

// Runs a grid, and keeps what a GPU would have left undefined: 0, or kFault.
inline constexpr int kFault = 999;
int start_grid(const Index& blocks, uint32_t n_threads, const std::function<void()>& kernel);
void set_order(Order order);  // of grids that this host thread starts
std::string last_fault();     // of this host thread

}  // namespace kvik::host_run

// Intrinsics of one thread.

// Σ of the products of four signed bytes, and c.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
  }
  return c;
}
// Σ of the products of two signed words and the lower, or the upper, two signed bytes of b, and c.
inline int __dp2a_lo(int a, int b, int c) {
  for (int i = 0; i < 2; ++i) {
    c += static_cast<int16_t>(a >> (16 * i)) * static_cast<int8_t>(b >> (8 * i));
  }
  return c;
}
inline int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }

// Four of the eight bytes of a, the lower ones, and b, by the low three bits of each of the
// selector's four lowest nibbles. Their upper bits, which ask for signs, are 0 here.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t all = uint64_t{b} << 32 | a;
  unsigned out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    out |= static_cast<unsigned>(all >> (8 * (selector >> (4 * i) & 7)) & 255) << (8 * i);
  }
  return out;
}

// Bits that are set; zeros above the highest of them; the number of the lowest, from 1, or 0.
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}

inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
