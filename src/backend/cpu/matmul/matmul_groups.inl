// Kernels of integer quants in groups (tensor/group_blocks.h). Included like matmul_small.inl. The
// distance of a 4-bit quant from its zero point fits into 8 bits. For 8-bit quants, quant − 128
// fits into 8 bits, and the rest is a minimum.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_quants.inl"

#include "backend/cpu/matmul/header_scales.inl"

// f16 scales [32] and offsets [32] per unit. The minimum of both halves of a block is scale ·
// offset.
struct ScalesAndOffsets {
  static constexpr uint32_t kBlocks = 0, kHeaderBytes = 8 * kLanes, kBytes = 0;
  static constexpr uint32_t kParts = 1, kMinima = 2;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H], minima[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) {
        scales[h] = load_f16(p + h * kLanes);
        minima[h] = mul(scales[h], load_f16(p + (2 + h) * kLanes));
      }
    }
    F32x16 scale(const uint8_t*, uint32_t, uint32_t h) const { return scales[h]; }
    F32x16 minus_minimum(const uint8_t*, uint32_t, uint32_t h) const { return minima[h]; }
  };
};

// The size of a group is a run-time parameter of the tile, so that the tile is compiled only once
// for all sizes.
template <uint32_t kGroup>
using KernelInt4 = QuantKernel<DotInt4, HeaderScales<0>, DotQ8, 3, kGroup / 32>;
template <uint32_t kGroup>
using KernelInt8 = QuantKernel<DotInt8, ScalesAndOffsets, DotInt8, 4, kGroup / 32>;

constexpr WeightKernels kKernels[] = {
    {ElementType::kInt4G32, ActivationFormat::kInt8, multiply<KernelInt4<32>>},
    {ElementType::kInt4G64, ActivationFormat::kInt8, multiply<KernelInt4<64>>},
    {ElementType::kInt4G128, ActivationFormat::kInt8, multiply<KernelInt4<128>>},
    {ElementType::kInt8G32, ActivationFormat::kInt8HalfSums, multiply<KernelInt8<32>>},
    {ElementType::kInt8G128, ActivationFormat::kInt8HalfSums, multiply<KernelInt8<128>>},
};
const WeightRows kGroupTypes = rows_of(kKernels);
