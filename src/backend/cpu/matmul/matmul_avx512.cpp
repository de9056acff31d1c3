#include "backend/cpu/isa/vec_avx512.h"
#include "backend/cpu/matmul/dot_avx512.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/matmul/tiles_avx512.h"

namespace kvik::cpu::avx512 {

#include "backend/cpu/matmul/matmul.inl"

}  // namespace kvik::cpu::avx512
