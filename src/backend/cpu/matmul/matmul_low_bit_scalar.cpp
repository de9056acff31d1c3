#include "backend/cpu/isa/vec_scalar.h"
#include "backend/cpu/matmul/dot_small_scalar.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/matmul/tiles_scalar.h"

namespace kvik::cpu::scalar {

#include "backend/cpu/matmul/matmul_low_bit.inl"

}  // namespace kvik::cpu::scalar
