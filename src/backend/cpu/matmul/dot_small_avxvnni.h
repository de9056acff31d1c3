#pragma once

#include "backend/cpu/matmul/dot_avxvnni.h"
#include "backend/cpu/matmul/matmul_kernels.h"

// The layouts of dot_small_scalar.h, multiplied with VPDPBUSD on 256 bits. The comments are in
// dot_small_scalar.h.
namespace kvik::cpu::avxvnni {

#include "backend/cpu/matmul/dot_small_256.inl"

template <class Levels, uint32_t kStart>
struct PreparedSums : UnsignedSums<Levels, kStart> {
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<Levels>(block, out); }
};

using DotQ5Signed = UnsignedSums<Q5SignedLevels, 2>;
template <const uint8_t (&kOperands)[16]>
using DotTable = UnsignedSums<TableLevels<kOperands>, 2>;
using DotNvFp4 = UnsignedSums<NvFp4Levels, 2>;
using DotInt4 = PreparedSums<Int4Levels, 2>;
using DotInt8 = DotBytes<3>;
using DotQ2 = PreparedSums<Q2Levels, 0>;
using DotQ3 = PreparedSums<Q3Levels, 2>;

}  // namespace kvik::cpu::avxvnni
