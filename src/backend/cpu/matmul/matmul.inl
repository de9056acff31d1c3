// Matrix products of one instruction set. Included inside the namespace of an instruction set,
// after its vector functions (vec_<isa>.h, dot_<isa>.h) and register tiles (tiles.h).
// matmul_kernels.h describes the arithmetic, layout/panel_matrix.h the layouts.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_activations.inl"

#include "backend/cpu/matmul/matmul_quants.inl"

#include "backend/cpu/matmul/matmul_floats.inl"

// The last argument is the number of words per row and block of the type's activation format: 3 for
// kInt8, 4 for the others.
using KernelQ8_0 = QuantKernel<DotQ8, F16Scales, DotQ8, 3>;
using KernelQ4_0 = QuantKernel<DotQ4<1>, F16Scales, DotBytes4<1>, 3>;
using KernelQ4K = QuantKernel<DotQ4<0>, ByteScalesAndMinima, DotBytes4<0>, 4>;
using KernelQ5K = QuantKernel<DotQ5, ByteScalesAndMinima, DotBytes<0, 31>, 4>;
using KernelQ6K = QuantKernel<DotQ6, ByteScalesOfHalves, DotBytes<2, 63>, 4>;

template <class Pair>
struct FloatKernel : FloatTile<Pair, Ahead::kWeights> {
  using Wide = FloatTile<PairF32, Ahead::kRows>;
  static constexpr uint32_t kUnit = 2, kUnitBlocks = 0, kWideUnits = 1;
  static constexpr uint32_t kHalves = Tiles::kFloatHalves;
  static constexpr uint32_t kRows = Tiles::kFloatRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kFloatUnitsInL1;
  static constexpr uint32_t kTilesWorthWidening = 4;
  static constexpr bool kHasRowScales = false;
  static constexpr bool kHasFewRows = false;
  static constexpr uint32_t kUnitBytes = Pair::kBytes;
  static constexpr uint32_t kWideUnitBytes = PairF32::kBytes;
  static constexpr size_t kRowUnitBytes = 2 * sizeof(float);

  static const uint8_t* widen(const uint8_t* packed, uint32_t n_units, uint8_t* out) {
    if (kUnitBytes == kWideUnitBytes) return packed;
    for (uint32_t pair = 0; pair < n_units; ++pair) {
      for (uint32_t h = 0; h < 2; ++h) {
        const uint8_t* at = packed + pair * kUnitBytes + h * Pair::kHalfBytes;
        auto* wide = reinterpret_cast<float*>(out + pair * kWideUnitBytes);
        store(wide + h * kLanes, Pair::even(at));
        store(wide + (2 + h) * kLanes, Pair::odd(at));
      }
    }
    return out;
  }
};

const ActivationKernels kActivations[kNumActivationFormats] = {
    kF32Activations,
    {},
    kInt8Activations<ActivationFormat::kInt8>,
    kInt8Activations<ActivationFormat::kInt8Sums>,
    kInt8Activations<ActivationFormat::kInt8HalfSums>,
};

constexpr WeightKernels kKernels[] = {
    {ElementType::kF32, ActivationFormat::kF32, multiply<FloatKernel<PairF32>>},
    {ElementType::kF16, ActivationFormat::kF32, multiply<FloatKernel<PairF16>>},
    {ElementType::kBF16, ActivationFormat::kF32, multiply<FloatKernel<PairBf16>>},
    {ElementType::kQ8_0, ActivationFormat::kInt8, multiply<KernelQ8_0>},
    {ElementType::kQ4_0, ActivationFormat::kInt8, multiply<KernelQ4_0>},
    {ElementType::kQ4_K, ActivationFormat::kInt8Sums, multiply<KernelQ4K>},
    {ElementType::kQ5_K, ActivationFormat::kInt8Sums, multiply<KernelQ5K>},
    {ElementType::kQ6_K, ActivationFormat::kInt8Sums, multiply<KernelQ6K>},
};
const WeightRows kMostUsedTypes = rows_of(kKernels);
