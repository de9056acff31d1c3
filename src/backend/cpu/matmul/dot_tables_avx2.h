#pragma once

#include "backend/cpu/matmul/dot_codes_avx2.h"
#include "tensor/level_tables.h"

// The layouts of dot_tables_scalar.h, multiplied with VPMADDUBSW as signed weights, which need no
// start word.
namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul/dot_tables_256.inl"

template <uint32_t kBits, const auto& kOperands, uint32_t kShift, uint32_t kBytes>
using DotShiftedTable = PreparedSignedSums<ShiftedTableLevels<kBits, kOperands, kShift, kBytes>>;
using DotPairs = PreparedSignedSums<PairsOfLevels>;

}  // namespace kvik::cpu::avx2
