#include "backend/cpu/kernels.h"
#include "backend/cpu/vec_scalar.h"

namespace kvik::cpu::scalar {
#include "backend/cpu/vec_math.inl"

#include "backend/cpu/rows.inl"
}  // namespace kvik::cpu::scalar
