#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_scalar.h"

namespace kvik::cpu::scalar {
#include "backend/cpu/rows.inl"
#include "backend/cpu/vec_math.inl"
}  // namespace kvik::cpu::scalar
