#pragma once

#include <immintrin.h>

#include <cstdint>

// The lanes of AVX2 with VPDPBUSD; the text is that of all sets with registers of 256 bits.
namespace kvik::cpu::avxvnni {

#include "backend/cpu/isa/vec_256.inl"

}  // namespace kvik::cpu::avxvnni
