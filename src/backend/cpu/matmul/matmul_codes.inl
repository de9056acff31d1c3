// Kernels of iq1_s to iq3_s, which have a codebook, and of tq1_0, tq2_0, q2_0 and q1_0. Included
// inside the namespace of an instruction set like matmul_small.inl, after dot_codes_<isa>.h.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_quants.inl"

#include "backend/cpu/matmul/header_scales.inl"

// f16 scales [32] per 256 k, divided by kDivisor, times bytes [32] per 32 k.
template <uint32_t kDivisor>
struct OddScales {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 4 * kLanes, kBytes = 2 * kLanes;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      const F32x16 share = set1(1.0f / static_cast<float>(kDivisor));
      for (uint32_t h = 0; h < H; ++h) scales[h] = mul(load_f16(p + h * kLanes), share);
    }
    F32x16 scale(const uint8_t* p, uint32_t, uint32_t h) const {
      return mul(scales[h], load_u8(p + (half + h) * kLanes));
    }
  };
};

// f16 scales [32] per 256 k, divided by 8, times 2 · s + 1. Bytes [32] per 32 k have an s for each
// 16 k, the first in their lower half.
struct OddScalesOfHalves {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 4 * kLanes, kBytes = 2 * kLanes;
  static constexpr uint32_t kParts = 2, kMinima = 0;
  template <uint32_t H>
  struct Of : OddScales<8>::Of<H> {
    using Base = OddScales<8>::Of<H>;
    using Base::Base;
    F32x16 scale(const uint8_t* p, uint32_t part, uint32_t h) const {
      const uint8_t* at = p + (Base::half + h) * kLanes;
      return mul(Base::scales[h], part == 0 ? load_low_factors(at) : load_high_factors(at));
    }
  };
};

using KernelIQ3XXS = QuantKernel<DotCodes<kIq3XxsGrid, kIq3XxsCodes>, OddScales<4>, DotQ8, 3>;
using KernelIQ3S = QuantKernel<DotCodes<kIq3SGrid, kIq3SCodes>, OddScales<1>, DotQ8, 3>;
using KernelIQ2XXS = QuantKernel<DotCodes<kIq2XxsGrid, kIq2XxsCodes>, OddScales<8>, DotQ8, 3>;
using KernelIQ2XS =
    QuantKernel<DotCodes<kIq2XsGrid, kIq2XsCodes, 4>, OddScalesOfHalves, DotBytesOfHalves, 4>;
using KernelIQ2S =
    QuantKernel<DotCodes<kIq2SGrid, kIq2SCodes, 4>, OddScalesOfHalves, DotBytesOfHalves, 4>;
using KernelIQ1S = QuantKernel<DotCodes<kIq1Grid, kIq1SCodes>, OddScales<8>, DotQ8, 3>;
using KernelIQ1M =
    QuantKernel<DotCodes<kIq1Grid, kIq1MCodes, 4>, OddScalesOfHalves, DotBytesOfHalves, 4>;
using KernelTernary = QuantKernel<DotTernary, HeaderScales<8>, DotQ8, 3>;
using KernelQ2_0 = QuantKernel<DotTernary, HeaderScales<2>, DotQ8, 3>;
using KernelQ1_0 = QuantKernel<DotBits, HeaderScales<4>, DotQ8, 3>;

constexpr WeightKernels kKernels[] = {
    {ElementType::kIQ3_XXS, ActivationFormat::kInt8, multiply<KernelIQ3XXS>},
    {ElementType::kIQ3_S, ActivationFormat::kInt8, multiply<KernelIQ3S>},
    {ElementType::kIQ2_XXS, ActivationFormat::kInt8, multiply<KernelIQ2XXS>},
    {ElementType::kIQ2_XS, ActivationFormat::kInt8Sums, multiply<KernelIQ2XS>},
    {ElementType::kIQ2_S, ActivationFormat::kInt8Sums, multiply<KernelIQ2S>},
    {ElementType::kIQ1_S, ActivationFormat::kInt8, multiply<KernelIQ1S>},
    {ElementType::kIQ1_M, ActivationFormat::kInt8Sums, multiply<KernelIQ1M>},
    {ElementType::kTQ1_0, ActivationFormat::kInt8, multiply<KernelTernary>},
    {ElementType::kTQ2_0, ActivationFormat::kInt8, multiply<KernelTernary>},
    {ElementType::kQ2_0, ActivationFormat::kInt8, multiply<KernelQ2_0>},
    {ElementType::kQ1_0, ActivationFormat::kInt8, multiply<KernelQ1_0>},
};
const WeightRows kCodeTypes = rows_of(kKernels);
