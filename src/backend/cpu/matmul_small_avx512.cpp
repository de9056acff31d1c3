#include "backend/cpu/dot_small_avx512.h"
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/tiles_avx512.h"
#include "backend/cpu/vec_avx512.h"

namespace kvik::cpu::avx512 {

#include "backend/cpu/matmul_small.inl"

}  // namespace kvik::cpu::avx512
