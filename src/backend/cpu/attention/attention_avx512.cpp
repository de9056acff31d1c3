#include "backend/cpu/attention/attention_int8_avx512.h"
#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/isa/vec_avx512.h"

namespace kvik::cpu::avx512 {

// 8 rows × 2 vectors: 16 sums, 2 of K or V and 1 of Q; more sums would not fill the ports better.
constexpr uint32_t kTileRows = 8;
constexpr uint32_t kTileRegisters = 16;
// int8: as many; 12 rows, 24 sums, took 3 to 10% longer in a prefill.
constexpr uint32_t kInt8TileRows = 8;
constexpr uint32_t kInt8TileRegisters = 16;

#include "backend/cpu/isa/vec_math.inl"

#include "backend/cpu/attention/attention.inl"

}  // namespace kvik::cpu::avx512
