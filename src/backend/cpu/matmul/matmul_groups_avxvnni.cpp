#include "backend/cpu/isa/vec_avxvnni.h"
#include "backend/cpu/matmul/dot_small_avxvnni.h"
#include "backend/cpu/matmul/matmul_kernels.h"
#include "backend/cpu/matmul/tiles_avxvnni.h"

namespace kvik::cpu::avxvnni {

#include "backend/cpu/matmul/matmul_groups.inl"

}  // namespace kvik::cpu::avxvnni
