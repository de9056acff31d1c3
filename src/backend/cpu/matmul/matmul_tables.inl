// Kernels of ik_llama.cpp's types: a sub-block has a table of levels that can be shifted.
// Included inside the namespace of an instruction set like matmul_small.inl, after
// dot_tables_<isa>.h.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_quants.inl"

// Factors in the bytes with which the blocks of DotShiftedTable begin: the upper seven bits, as
// they are or halved, minus kOffset; or a signed byte.
template <uint32_t kOffset>
struct SevenBits {
  static F32x16 load(const uint8_t* p) {
    return sub(mul(load_even(p), set1(0.5f)), set1(static_cast<float>(kOffset)));
  }
};
template <uint32_t kOffset>
struct EvenBytes {
  static F32x16 load(const uint8_t* p) {
    return sub(load_even(p), set1(static_cast<float>(kOffset)));
  }
};
struct SignedBytes {
  static F32x16 load(const uint8_t* p) { return load_i8(reinterpret_cast<const int8_t*>(p)); }
};

struct F16Header {
  static constexpr uint32_t kBytes = 4 * kLanes;
  static F32x16 load_half(const uint8_t* header, uint32_t half) {
    return load_f16(reinterpret_cast<const uint16_t*>(header) + half * kLanes);
  }
};
struct F32Header {
  static constexpr uint32_t kBytes = 8 * kLanes;
  static F32x16 load_half(const uint8_t* header, uint32_t half) {
    return load(reinterpret_cast<const float*>(header) + half * kLanes);
  }
};

// Scales [32] per 256 k, times the factors of the 32 k or of each 16 k of a block.
template <class Header, class Factors, uint32_t kPartsOfBlock>
struct FactorScales {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = Header::kBytes, kBytes = 0;
  static constexpr uint32_t kParts = kPartsOfBlock, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      for (uint32_t h = 0; h < H; ++h) scales[h] = Header::load_half(header, half + h);
    }
    F32x16 scale(const uint8_t* p, uint32_t part, uint32_t h) const {
      return mul(scales[h], Factors::load(p + (2 * part + half + h) * kLanes));
    }
  };
};

// With factors of each 16 k, or of 32 k.
template <uint32_t kBits, const auto& kOperands, uint32_t kShift, class Factors,
          uint32_t kBytes = 2>
using KernelOf16 = QuantKernel<DotShiftedTable<kBits, kOperands, kShift, kBytes>,
                               FactorScales<F16Header, Factors, 2>, DotBytesOfHalves, 4>;
template <uint32_t kBits, const auto& kOperands, uint32_t kShift, class Header, class Factors>
using KernelOf32 = QuantKernel<DotShiftedTable<kBits, kOperands, kShift, 1>,
                               FactorScales<Header, Factors, 1>, DotQ8, 3>;

using KernelIQ2K = KernelOf16<2, kIq2KOperands, kIq2KShift, SevenBits<8>>;
using KernelIQ3K = KernelOf16<3, kIq3KOperands, kIq3KShift, EvenBytes<31>>;
using KernelIQ4K = KernelOf16<4, kIq4KOperands, kIq4KShift, SevenBits<32>>;
using KernelIQ5K = KernelOf16<5, kIq5KOperands, kIq5KShift, SevenBits<32>>;
using KernelIQ6K = KernelOf16<6, kIq6KOperands, kIq6KShift, SignedBytes, 3>;
using KernelIQ4KS = KernelOf32<4, kIq4KOperands, kIq4KShift, F32Header, EvenBytes<127>>;
using KernelIQ5KS = KernelOf32<5, kIq5KOperands, kIq5KShift, F32Header, EvenBytes<127>>;
using KernelIQ2KS = KernelOf32<2, kIq2KOperands, kIq2KShift, F16Header, SevenBits<16>>;
using KernelIQ3KS = KernelOf32<3, kIq3KOperands, kIq3KShift, F16Header, SevenBits<16>>;
using KernelIQ2KL = QuantKernel<DotPairs, FactorScales<F16Header, SevenBits<32>, 1>, DotQ8, 3>;

constexpr WeightKernels kKernels[] = {
    {ElementType::kIQ2_K, ActivationFormat::kInt8Sums, multiply<KernelIQ2K>},
    {ElementType::kIQ3_K, ActivationFormat::kInt8Sums, multiply<KernelIQ3K>},
    {ElementType::kIQ4_K, ActivationFormat::kInt8Sums, multiply<KernelIQ4K>},
    {ElementType::kIQ5_K, ActivationFormat::kInt8Sums, multiply<KernelIQ5K>},
    {ElementType::kIQ6_K, ActivationFormat::kInt8Sums, multiply<KernelIQ6K>},
    {ElementType::kIQ4_KS, ActivationFormat::kInt8, multiply<KernelIQ4KS>},
    {ElementType::kIQ4_KSS, ActivationFormat::kInt8, multiply<KernelIQ4KS>},
    {ElementType::kIQ5_KS, ActivationFormat::kInt8, multiply<KernelIQ5KS>},
    {ElementType::kIQ2_KS, ActivationFormat::kInt8, multiply<KernelIQ2KS>},
    {ElementType::kIQ3_KS, ActivationFormat::kInt8, multiply<KernelIQ3KS>},
    {ElementType::kIQ2_KL, ActivationFormat::kInt8, multiply<KernelIQ2KL>},
};
const WeightRows kTableTypes = rows_of(kKernels);
