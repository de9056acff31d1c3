#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_avx2.h"

namespace kvik::cpu::avx2 {
#include "backend/cpu/vec_math.inl"

#include "backend/cpu/rows.inl"
}  // namespace kvik::cpu::avx2
