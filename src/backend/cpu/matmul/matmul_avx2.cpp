#include "backend/cpu/isa/vec_avx2.h"
#include "backend/cpu/matmul/dot_avx2.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/matmul/tiles_avx2.h"

namespace kvik::cpu::avx2 {

#include "backend/cpu/matmul/matmul.inl"

}  // namespace kvik::cpu::avx2
