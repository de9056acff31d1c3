#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/isa/vec_scalar.h"

namespace kvik::cpu::scalar {
#include "backend/cpu/isa/vec_math.inl"

#include "backend/cpu/rows/rows.inl"
}  // namespace kvik::cpu::scalar
