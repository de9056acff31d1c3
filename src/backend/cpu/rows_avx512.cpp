#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_avx512.h"

namespace kvik::cpu::avx512 {
#include "backend/cpu/vec_math.inl"

#include "backend/cpu/rows.inl"
}  // namespace kvik::cpu::avx512
