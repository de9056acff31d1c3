#pragma once

#include "backend/cpu/matmul/dot_small_avx2.h"
#include "tensor/grids.h"
#include "tensor/packed_codes.h"

// The layouts of dot_codes_scalar.h, multiplied with VPMADDUBSW as signed weights, which need no
// start word.
namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul/dot_codes_256.inl"

template <const auto& kGrid, PackedCodes kPlanes, uint32_t = 1>
using DotCodes = SignedSums<CodeLevels<kGrid, kPlanes>>;
using DotBytesOfHalves = DotQ8;
using DotTernary = SignedSums<TernaryLevels>;
using DotBits = SignedSums<BitLevels>;

}  // namespace kvik::cpu::avx2
