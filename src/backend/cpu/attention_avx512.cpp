#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_avx512.h"

namespace kvik::cpu::avx512 {

// 8 rows × 2 vectors: 16 sums, 2 of K or V and 1 of Q; more sums would not fill the ports better.
constexpr uint32_t kTileRows = 8;
constexpr uint32_t kTileRegisters = 16;

#include "backend/cpu/vec_math.inl"

#include "backend/cpu/attention.inl"

}  // namespace kvik::cpu::avx512
