#include "backend/cpu/dot_small_scalar.h"
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/tiles_scalar.h"
#include "backend/cpu/vec_scalar.h"

namespace kvik::cpu::scalar {

#include "backend/cpu/matmul_groups.inl"

}  // namespace kvik::cpu::scalar
