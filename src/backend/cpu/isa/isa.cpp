#include "backend/cpu/isa/isa.h"

namespace kvik::cpu {
namespace {

bool always() { return true; }

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avxvnni() { return has_avx2() && __builtin_cpu_supports("avxvnni"); }

// The compiler's check includes the operating system's saving of zmm registers.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// Multiply-adds of VDPBF16PS against those of f32: twice as many on Zen 4 and 5, half as many on
// Sapphire and Emerald Rapids (227 and 456 GFLOP/s on two cores).
bool is_amd() { return __builtin_cpu_is("amd"); }

MatmulKernels with_bf16_products() {
  MatmulKernels kernels = avx512::kMatmulKernels;
  kernels.activations[static_cast<size_t>(ActivationFormat::kBF16)] = avx512bf16::kBf16Activations;
  kernels.bf16 = avx512bf16::kBf16Weights;
  return kernels;
}

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  static const MatmulKernels bf16_matmul = with_bf16_products();
  static const InstructionSet sets[] = {
      {"scalar", always, always, scalar::kRowKernels, scalar::kAttentionKernels,
       scalar::kMatmulKernels},
      {"avx2", has_avx2, always, avx2::kRowKernels, avx2::kAttentionKernels, avx2::kMatmulKernels},
      {"avxvnni", has_avxvnni, always, avx2::kRowKernels, avx2::kAttentionKernels,
       avxvnni::kMatmulKernels},
      {"avx512", has_avx512, always, avx512::kRowKernels, avx512::kAttentionKernels,
       avx512::kMatmulKernels},
      {"avx512bf16", has_avx512bf16, is_amd, avx512::kRowKernels, avx512::kAttentionKernels,
       bf16_matmul},
  };
  return sets;
}

const InstructionSet* find_instruction_set(std::string_view name) {
  const InstructionSet* found = nullptr;
  for (const InstructionSet& set : instruction_sets()) {
    const bool wanted = name.empty() ? set.is_preferred() : name == set.name;
    if (wanted && set.runs_here()) found = &set;
  }
  return found;
}

}  // namespace kvik::cpu
