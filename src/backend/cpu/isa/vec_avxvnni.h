#pragma once

#include <immintrin.h>

#include <cstdint>

// Vectors of AVX2 on processors with VPDPBUSD. The code is shared by all instruction sets with
// 256-bit registers.
namespace kvik::cpu::avxvnni {

#include "backend/cpu/isa/vec_256.inl"

}  // namespace kvik::cpu::avxvnni
