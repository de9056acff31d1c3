// Kernels of q2_k and q3_k. Included like matmul_small.inl. A level times its small integer scale
// is an 8-bit number, by which the activations are multiplied. Only one scale per 32 k remains,
// where q6_k has two.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_quants.inl"

#include "backend/cpu/matmul/header_scales.inl"

// q2_k: f16 scales [32] and minima [32] per 256 k. The minima of each 16 k are multiplied by the
// upper halves of the bytes [2][32] with which the blocks of DotQ2 begin.
struct HalfMinima {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 8 * kLanes, kBytes = 0;
  static constexpr uint32_t kParts = 1, kMinima = 2;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H], minus_minima[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) {
        scales[h] = load_f16(p + h * kLanes);
        minus_minima[h] = sub(zero(), load_f16(p + (2 + h) * kLanes));
      }
    }
    F32x16 scale(const uint8_t*, uint32_t, uint32_t h) const { return scales[h]; }
    F32x16 minus_minimum(const uint8_t* p, uint32_t part, uint32_t h) const {
      return mul(minus_minima[h], load_high_nibbles(p + (2 * part + half + h) * kLanes));
    }
  };
};

using KernelQ2K = QuantKernel<DotQ2, HalfMinima, DotBytes<0, 45>, 4>;
using KernelQ3K = QuantKernel<DotQ3, HeaderScales<8>, DotQ8, 3>;

constexpr WeightKernels kKernels[] = {
    {ElementType::kQ2_K, ActivationFormat::kInt8HalfSums, multiply<KernelQ2K>},
    {ElementType::kQ3_K, ActivationFormat::kInt8, multiply<KernelQ3K>},
};
const WeightRows kLowBitTypes = rows_of(kKernels);
