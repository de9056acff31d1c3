#pragma once

#include "backend/cpu/matmul/dot_small_avxvnni.h"
#include "tensor/grids.h"
#include "tensor/packed_codes.h"

// The layouts of dot_codes_scalar.h, multiplied with VPDPBUSD on 256 bits. The comments are in
// dot_codes_scalar.h.
namespace kvik::cpu::avxvnni {

#include "backend/cpu/matmul/dot_codes_256.inl"

template <const auto& kGrid, PackedCodes kPlanes, uint32_t kTimes = 1>
struct DotCodes : UnsignedSums<CodeLevels<kGrid, kPlanes>, 2> {
  static constexpr uint32_t kStartTimes = kTimes;
};
struct DotBytesOfHalves : DotBytes<2> {
  static constexpr uint32_t kStartTimes = 4;
};
using DotTernary = UnsignedSums<TernaryLevels, 2>;
using DotBits = UnsignedSums<BitLevels, 2>;

}  // namespace kvik::cpu::avxvnni
