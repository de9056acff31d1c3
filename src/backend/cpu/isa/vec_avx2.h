#pragma once

#include <immintrin.h>

#include <cstdint>

// Vectors of AVX2. The code is shared by all instruction sets with 256-bit registers.
namespace kvik::cpu::avx2 {

#include "backend/cpu/isa/vec_256.inl"

}  // namespace kvik::cpu::avx2
