#include "backend/cpu/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

namespace kvik::cpu {
namespace {

bool always() { return true; }

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avxvnni() { return has_avx2() && __builtin_cpu_supports("avxvnni"); }

// The compiler's check includes the operating system's support of zmm registers.
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// Asks the kernel, once for this process, for permission to use AMX tiles (Linux 5.16 and later).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool is_permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_permitted;
}

bool has_amx() {
  return has_avx512bf16() && __builtin_cpu_supports("amx-tile") &&
         __builtin_cpu_supports("amx-bf16") && __builtin_cpu_supports("amx-int8") &&
         may_use_tiles();
}

// Returns whether this is an AMD processor. Two decisions depend on it. VDPBF16PS has twice the
// multiply-add rate of f32 on Zen 4 and 5, but half of it on Sapphire and Emerald Rapids (227 and
// 456 GFLOP/s on two cores). And weights are prefetched in a different way (matmul_loops.inl).
bool is_amd() { return __builtin_cpu_is("amd"); }

MatmulKernels matmul_of(const ActivationKernels (&activations)[kNumActivationFormats],
                        std::initializer_list<WeightRows> units) {
  MatmulKernels kernels{};
  kernels.prefetches_in_one_step = is_amd();
  std::ranges::copy(activations, kernels.by_format);
  for (const WeightRows& unit : units) {
    for (const WeightKernels& row : std::span(unit.begin, unit.n)) {
      kernels.by_type[static_cast<size_t>(row.type)] = row;
    }
  }
  return kernels;
}

// Kernels of the sets with AVX-512: they have the same bits with and without VBMI.
WeightRows code_types() {
  return __builtin_cpu_supports("avx512vbmi") ? avx512vbmi::kCodeTypes : avx512::kCodeTypes;
}

MatmulKernels with_bf16_products(const WeightRows& types, const ActivationKernels& activations) {
  using namespace avx512;
  MatmulKernels kernels =
      matmul_of(kActivations, {kMostUsedTypes, kSmallTypes, kLowBitTypes, kGroupTypes, code_types(),
                               kTableTypes, kFp8Types, types});
  kernels.by_format[static_cast<size_t>(ActivationFormat::kBF16)] = activations;
  return kernels;
}

}  // namespace

std::span<const InstructionSet> instruction_sets() {
  static const InstructionSet sets[] = {
      {"scalar", always, always, scalar::kRowKernels, scalar::kAttentionKernels,
       scalar::kStateKernels, scalar::kLowRankKernels, scalar::kIndexerKernels,
       matmul_of(
           scalar::kActivations,
           {scalar::kMostUsedTypes, scalar::kSmallTypes, scalar::kLowBitTypes, scalar::kGroupTypes,
            scalar::kCodeTypes, scalar::kTableTypes, scalar::kFp8Types})},
      {"avx2", has_avx2, always, avx2::kRowKernels, avx2::kAttentionKernels, avx2::kStateKernels,
       avx2::kLowRankKernels, avx2::kIndexerKernels,
       matmul_of(avx2::kActivations,
                 {avx2::kMostUsedTypes, avx2::kSmallTypes, avx2::kLowBitTypes, avx2::kGroupTypes,
                  avx2::kCodeTypes, avx2::kTableTypes, avx2::kFp8Types})},
      {"avxvnni", has_avxvnni, always, avx2::kRowKernels, avx2::kAttentionKernels,
       avx2::kStateKernels, avx2::kLowRankKernels, avx2::kIndexerKernels,
       matmul_of(
           avxvnni::kActivations,
           {avxvnni::kMostUsedTypes, avxvnni::kSmallTypes, avxvnni::kLowBitTypes,
            avxvnni::kGroupTypes, avxvnni::kCodeTypes, avxvnni::kTableTypes, avxvnni::kFp8Types})},
      {"avx512", has_avx512, always, avx512::kRowKernels, avx512::kAttentionKernels,
       avx512::kStateKernels, avx512::kLowRankKernels, avx512::kIndexerKernels,
       matmul_of(avx512::kActivations,
                 {avx512::kMostUsedTypes, avx512::kSmallTypes, avx512::kLowBitTypes,
                  avx512::kGroupTypes, code_types(), avx512::kTableTypes, avx512::kFp8Types})},
      {"avx512bf16", has_avx512bf16, is_amd, avx512::kRowKernels, avx512::kAttentionKernels,
       avx512::kStateKernels, avx512::kLowRankKernels, avx512::kIndexerKernels,
       with_bf16_products(avx512bf16::kBf16Types, avx512bf16::kBf16Activations)},
      {"amx", has_amx, always, avx512::kRowKernels, amx::kAttentionKernels, avx512::kStateKernels,
       avx512::kLowRankKernels, avx512::kIndexerKernels,
       with_bf16_products(amx::kBf16Types, amx::kBf16Activations)},
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
