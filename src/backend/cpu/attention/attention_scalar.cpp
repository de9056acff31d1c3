#include "backend/cpu/attention/attention_int8_scalar.h"
#include "backend/cpu/isa/kernels.h"
#include "backend/cpu/isa/vec_scalar.h"

namespace kvik::cpu::scalar {

// Any tile will do: this is the specification, not a fast path.
constexpr uint32_t kTileRows = 4;
constexpr uint32_t kTileRegisters = 4;
constexpr uint32_t kInt8TileRows = 4;
constexpr uint32_t kInt8TileRegisters = 4;

#include "backend/cpu/isa/vec_math.inl"

#include "backend/cpu/attention/attention.inl"

}  // namespace kvik::cpu::scalar
