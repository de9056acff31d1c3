#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/isa/vec_avx512.h"

namespace kvik::cpu::avx512 {
#include "backend/cpu/isa/vec_math.inl"

#include "backend/cpu/rows/rows.inl"
}  // namespace kvik::cpu::avx512
