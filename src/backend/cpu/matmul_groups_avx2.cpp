#include "backend/cpu/dot_small_avx2.h"
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/tiles_avx2.h"
#include "backend/cpu/vec_avx2.h"

namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul_groups.inl"

}  // namespace kvik::cpu::avx2
