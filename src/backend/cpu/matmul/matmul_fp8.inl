// Kernels of fp8 and fp8g32. Included inside the namespace of an instruction set like matmul.inl,
// but needs only its vector functions.

#include "backend/cpu/matmul/matmul_loops.inl"

#include "backend/cpu/matmul/matmul_floats.inl"

// A unit is a block: f32 scales [32], times 256, then bytes [k][32]. A shift converts the bytes to
// f16 values that are 256 times too small. Their product with the scale is therefore the weight,
// rounded once, as in dequantize_row(). The size of a block is a run-time parameter of the tile.
struct Fp8Tile {
  static constexpr uint32_t kScaleBytes = 8 * kLanes;
  static constexpr uint32_t kPairBytes = 4 * kLanes;

  template <uint32_t H>
  struct Scales {
    F32x16 of[H];
    Scales(const uint8_t* unit, uint32_t half) {
      const auto* p = reinterpret_cast<const float*>(unit) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) of[h] = load(p + h * kLanes);
    }
    F32x16 weights(const uint8_t* bytes, uint32_t h) const {
      return mul(load_e4m3(bytes + h * kLanes), of[h]);
    }
  };

  template <uint32_t H, uint32_t R>
  [[gnu::noinline]] static void run(const Tile& t) {
    F32x16 sums[R][H];
    load_sums<H, R>(t, sums);
    const uint8_t* x = t.x;
    const uint8_t* unit = t.weights;
    for (uint32_t i = 0; i < t.n_units; ++i) {
      prefetch_weights<kScaleBytes>(t, unit);
      const Scales<H> scales(unit, t.half);
      const uint8_t* bytes = unit + kScaleBytes + t.half * kLanes;
      for (uint32_t pair = 0; pair < t.unit_blocks * kActivationBlock / 2; ++pair) {
        prefetch_ahead<Ahead::kWeights, kPairBytes, R * 8>(t, bytes, x);
        F32x16 w[H];
#pragma GCC unroll 2
        for (uint32_t k = 0; k < 2; ++k) {
#pragma GCC unroll 2
          for (uint32_t h = 0; h < H; ++h) w[h] = scales.weights(bytes + k * kPairBytes / 2, h);
          add_products<H, R>(w, x + k * R * 4, sums);
        }
        x += R * 8;
        bytes += kPairBytes;
      }
      unit += kScaleBytes + t.unit_blocks * kActivationBlock * 2 * kLanes;
    }
    store_sums<H, R>(t, sums);
  }
};

template <uint32_t kColumns>
struct Fp8Kernel : Fp8Tile {
  using Wide = FloatTile<PairF32, Ahead::kRows>;
  static constexpr uint32_t kUnit = kColumns, kUnitBlocks = kColumns / kActivationBlock;
  static constexpr uint32_t kWideUnits = kColumns / 2;
  static constexpr uint32_t kHalves = Tiles::kFloatHalves;
  static constexpr uint32_t kRows = Tiles::kFloatRows;
  static constexpr uint32_t kUnitsInL1 =
      Tiles::kFloatUnitsInL1 > kWideUnits ? Tiles::kFloatUnitsInL1 / kWideUnits : 1;
  static constexpr uint32_t kTilesWorthWidening = 2;
  static constexpr bool kHasRowScales = false;
  static constexpr bool kHasFewRows = false;
  static constexpr uint32_t kUnitBytes = kScaleBytes + kColumns * 2 * kLanes;
  static constexpr uint32_t kWideUnitBytes = kWideUnits * PairF32::kBytes;
  static constexpr size_t kRowUnitBytes = kColumns * sizeof(float);

  static const uint8_t* widen(const uint8_t* packed, uint32_t n_units, uint8_t* out) {
    auto* wide = reinterpret_cast<float*>(out);
    for (uint32_t unit = 0; unit < n_units; ++unit, packed += kUnitBytes) {
      const Scales<2> scales(packed, 0);
      for (uint32_t k = 0; k < kColumns; ++k) {
        const uint8_t* bytes = packed + kScaleBytes + k * 2 * kLanes;
        for (uint32_t h = 0; h < 2; ++h, wide += kLanes) store(wide, scales.weights(bytes, h));
      }
    }
    return out;
  }
};

constexpr WeightKernels kKernels[] = {
    {ElementType::kFp8, ActivationFormat::kF32, multiply<Fp8Kernel<128>>},
    {ElementType::kFp8G32, ActivationFormat::kF32, multiply<Fp8Kernel<32>>},
};
const WeightRows kFp8Types = rows_of(kKernels);
