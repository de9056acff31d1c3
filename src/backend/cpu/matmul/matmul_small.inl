// Kernels of q4_1, q5_0, q5_1, iq4_nl, iq4_xs, mxfp4 and nvfp4. Included inside the namespace of an
// instruction set like matmul.inl, after dot_small_<isa>.h.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_quants.inl"

// q4_1, q5_1: f16 scales [32] and minima [32]. The minima are added.
struct F16ScalesAndMinima {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBytes = 8 * kLanes;
  static constexpr uint32_t kParts = 1, kMinima = 1;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    Of(const uint8_t*, uint32_t first_half) : half(first_half) {}
    F32x16 scale(const uint8_t* p, uint32_t, uint32_t h) const {
      return load_f16(reinterpret_cast<const uint16_t*>(p) + (half + h) * kLanes);
    }
    F32x16 minus_minimum(const uint8_t* p, uint32_t, uint32_t h) const {
      return scale(p, 0, 2 + h);
    }
  };
};

// iq4_xs: f16 scales [32] per 256 k, times signed bytes [32] per 32 k.
struct ByteScales {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 4 * kLanes, kBytes = 2 * kLanes;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) scales[h] = load_f16(p + h * kLanes);
    }
    F32x16 scale(const uint8_t* p, uint32_t, uint32_t h) const {
      return mul(scales[h], load_i8(reinterpret_cast<const int8_t*>(p) + (half + h) * kLanes));
    }
  };
};

// mxfp4: bytes [32], which are exponents of scales.
struct ExponentScales {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBytes = 2 * kLanes;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    Of(const uint8_t*, uint32_t first_half) : half(first_half) {}
    // Returns 2^(exponent − 128), and 0 for exponent 0. In a float of 2^23 or more, the byte is the
    // low bits.
    F32x16 scale(const uint8_t* p, uint32_t, uint32_t h) const {
      const F32x16 exponent = add(load_u8(p + (half + h) * kLanes), set1(0x1.8p+23f));
      return mul(exponent_from_low_bits(exponent), set1(0.5f));
    }
  };
};

// nvfp4: E4M3 scales in bytes [2][32], one for each 16 k. Their values are halved.
struct E4m3ScalesOfHalves {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBytes = 4 * kLanes;
  static constexpr uint32_t kParts = 2, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    Of(const uint8_t*, uint32_t first_half) : half(first_half) {}
    F32x16 scale(const uint8_t* p, uint32_t part, uint32_t h) const {
      return mul(load_e4m3(p + (2 * part + half + h) * kLanes), set1(128.0f));
    }
  };
};

using KernelQ4_1 = QuantKernel<DotQ4<0>, F16ScalesAndMinima, DotBytes4<0>, 4>;
using KernelQ5_0 = QuantKernel<DotQ5Signed, F16Scales, DotQ8, 3>;
using KernelQ5_1 = QuantKernel<DotQ5, F16ScalesAndMinima, DotBytes<0, 31>, 4>;
using KernelIQ4NL = QuantKernel<DotTable<kIq4Operands>, F16Scales, DotQ8, 3>;
using KernelIQ4XS = QuantKernel<DotTable<kIq4Operands>, ByteScales, DotQ8, 3>;
using KernelMXFP4 = QuantKernel<DotTable<kFp4Operands>, ExponentScales, DotQ8, 3>;
using KernelNVFP4 = QuantKernel<DotNvFp4, E4m3ScalesOfHalves, DotBytes<2, 63>, 4>;

constexpr WeightKernels kKernels[] = {
    {ElementType::kQ4_1, ActivationFormat::kInt8Sums, multiply<KernelQ4_1>},
    {ElementType::kQ5_0, ActivationFormat::kInt8, multiply<KernelQ5_0>},
    {ElementType::kQ5_1, ActivationFormat::kInt8Sums, multiply<KernelQ5_1>},
    {ElementType::kIQ4_NL, ActivationFormat::kInt8, multiply<KernelIQ4NL>},
    {ElementType::kIQ4_XS, ActivationFormat::kInt8, multiply<KernelIQ4XS>},
    {ElementType::kMXFP4, ActivationFormat::kInt8, multiply<KernelMXFP4>},
    {ElementType::kNvFp4, ActivationFormat::kInt8Sums, multiply<KernelNVFP4>},
};
const WeightRows kSmallTypes = rows_of(kKernels);
