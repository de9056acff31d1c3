#include "backend/cpu/attention_int8_avx512.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_avx512.h"

namespace kvik::cpu::avx512 {

// 8 rows × 2 vectors: 16 sums, 2 of K or V and 1 of Q; more sums would not fill the ports better.
constexpr uint32_t kTileRows = 8;
constexpr uint32_t kTileRegisters = 16;
// int8: 12 rows × 2 vectors, or 6 × 4: 24 sums, and few loads to each product.
constexpr uint32_t kInt8TileRows = 12;
constexpr uint32_t kInt8TileRegisters = 24;

#include "backend/cpu/vec_math.inl"

#include "backend/cpu/attention.inl"

}  // namespace kvik::cpu::avx512
