#pragma once

#include <immintrin.h>

#include <cstdint>

// The lanes of AVX2; the text is that of all sets with registers of 256 bits.
namespace kvik::cpu::avx2 {

#include "backend/cpu/isa/vec_256.inl"

}  // namespace kvik::cpu::avx2
