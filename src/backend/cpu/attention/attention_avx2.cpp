#include "backend/cpu/attention/attention_int8_avx2.h"
#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/isa/vec_avx2.h"

namespace kvik::cpu::avx2 {

// 6 rows × 1 vector of two registers: 12 sums, 2 of K or V and 1 of Q in 16 registers.
constexpr uint32_t kTileRows = 6;
constexpr uint32_t kTileRegisters = 6;
// int8: 4 rows × 1 vector of two registers: 8 sums, 4 of widened V and 2 of weights.
constexpr uint32_t kInt8TileRows = 4;
constexpr uint32_t kInt8TileRegisters = 4;

#include "backend/cpu/isa/vec_math.inl"

#include "backend/cpu/attention/attention.inl"

}  // namespace kvik::cpu::avx2
