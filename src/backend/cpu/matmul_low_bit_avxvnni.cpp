#include "backend/cpu/dot_small_avxvnni.h"
#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/tiles_avxvnni.h"
#include "backend/cpu/vec_avxvnni.h"

namespace kvik::cpu::avxvnni {

#include "backend/cpu/matmul_low_bit.inl"

}  // namespace kvik::cpu::avxvnni
