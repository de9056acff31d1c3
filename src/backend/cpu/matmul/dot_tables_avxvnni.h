#pragma once

#include "backend/cpu/matmul/dot_codes_avxvnni.h"
#include "tensor/level_tables.h"

// The layouts of dot_tables_scalar.h, multiplied with VPDPBUSD on 256 bits. The comments are in
// dot_tables_scalar.h.
namespace kvik::cpu::avxvnni {

#include "backend/cpu/matmul/dot_tables_256.inl"

template <uint32_t kBits, const auto& kOperands, uint32_t kShift, uint32_t kBytes>
struct DotShiftedTable : PreparedSums<ShiftedTableLevels<kBits, kOperands, kShift, kBytes>, 2> {
  static constexpr uint32_t kStartTimes = kBytes == 1 ? 1 : 4;
};
using DotPairs = PreparedSums<PairsOfLevels, 2>;

}  // namespace kvik::cpu::avxvnni
