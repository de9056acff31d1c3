#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/isa/vec_avx2.h"

namespace kvik::cpu::avx2 {
#include "backend/cpu/isa/vec_math.inl"

#include "backend/cpu/rows/rows.inl"
}  // namespace kvik::cpu::avx2
