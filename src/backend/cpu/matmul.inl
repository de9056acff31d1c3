// The matrix products of one instruction set: included by matmul_<isa>.cpp inside its namespace,
// after its vocabulary (vec_<isa>.h, dot_<isa>.h) and a `struct Tiles` with the register tiles.
// matmul_kernels.h states the arithmetic, packed_matrix.h the layouts.

#include "backend/cpu/matmul_activations.inl"
#include "backend/cpu/matmul_loops.inl"

template <uint32_t H, uint32_t R>
inline void load_sums(const Tile& t, F32x16 (&sums)[R][H]) {
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t h = 0; h < H; ++h) {
      sums[r][h] = t.is_first ? zero() : load(t.sums + (r * H + h) * kLanes);
    }
  }
}

template <uint32_t H, uint32_t R>
inline void store_sums(const Tile& t, const F32x16 (&sums)[R][H]) {
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t h = 0; h < H; ++h) store(t.sums + (r * H + h) * kLanes, sums[r][h]);
  }
}

// Scales of the 16 columns of half a panel.
struct F16Scales {
  static constexpr uint32_t kBytes = 2 * kLanes;
  static F32x16 at(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
};
struct F32Scales {
  static constexpr uint32_t kBytes = 4 * kLanes;
  static F32x16 at(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
};

// The register tile of quantised weights: blocks of 32 k, each with one scale per column.
template <class Dot, class Scales, Ahead kAhead>
struct QuantTile {
  static constexpr uint32_t kUnitBytes = 2 * Scales::kBytes + Dot::kBlockBytes;

  template <uint32_t H, uint32_t R>
  [[gnu::noinline]] static void run(const Tile& t) {
    F32x16 sums[R][H];
    load_sums<H, R>(t, sums);
    const uint8_t* block = t.weights;
    const uint8_t* x = t.x;
    for (uint32_t b = 0; b < t.n_units; ++b) {
      prefetch_ahead<kAhead, kUnitBytes, R * kInt8BlockBytes>(t, block, x);
      const uint8_t* scales = block + t.half * Scales::kBytes;
      const uint8_t* quants = block + 2 * Scales::kBytes + t.half * (kGroupBytes / 2);
      const uint8_t* x_scales = x + R * kActivationBlock;
      const uint8_t* offsets = x_scales + R * 4 * (Dot::kOffset == 8 ? 1 : 2);
      typename Dot::Sums dots[R][H];
#pragma GCC unroll 16
      for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < H; ++h) dots[r][h] = Dot::begin(load_as<int32_t>(offsets + 4 * r));
      }
#pragma GCC unroll 8
      for (uint32_t step = 0; step < Dot::kSteps; ++step) {
        typename Dot::Weights w[H];
#pragma GCC unroll 2
        for (uint32_t h = 0; h < H; ++h) w[h] = Dot::load(quants + h * (kGroupBytes / 2), step);
        const auto* levels = reinterpret_cast<const int8_t*>(x) + 4 * Dot::group_of(step);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          const auto four = broadcast_levels(levels + kActivationBlock * r);
#pragma GCC unroll 2
          for (uint32_t h = 0; h < H; ++h) dots[r][h] = Dot::add(dots[r][h], w[h], four);
        }
      }
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) {
        const F32x16 w_scale = Scales::at(scales + h * Scales::kBytes);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          const F32x16 scale = mul(w_scale, set1(load_as<float>(x_scales + 4 * r)));
          const I32x16 dot = Dot::end(dots[r][h], load_as<int32_t>(offsets + 4 * r));
          sums[r][h] = fma(to_f32(dot), scale, sums[r][h]);
        }
      }
      block += kUnitBytes;
      x += R * kInt8BlockBytes;
    }
    store_sums<H, R>(t, sums);
  }
};

// Where many rows pass by, scales are widened to f32 and nibbles to bytes, once for all of them.
template <class Dot, class WideDot>
struct QuantKernel : QuantTile<Dot, F16Scales, Ahead::kWeights> {
  using Wide = QuantTile<WideDot, F32Scales, Ahead::kRows>;
  static constexpr uint32_t kUnit = kActivationBlock;
  static constexpr uint32_t kHalves = Tiles::kQuantHalves;
  static constexpr uint32_t kRows = Tiles::kQuantRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kQuantUnitsInL1;
  static constexpr uint32_t kWideUnitBytes = Wide::kUnitBytes;
  static constexpr size_t kRowUnitBytes = kInt8BlockBytes;

  static const uint8_t* widen(const uint8_t* packed, uint32_t n_units, uint8_t* out) {
    for (uint32_t b = 0; b < n_units; ++b) {
      const uint8_t* block = packed + b * QuantKernel::kUnitBytes;
      uint8_t* wide = out + b * kWideUnitBytes;
      for (uint32_t h = 0; h < 2; ++h) {
        store(reinterpret_cast<float*>(wide + h * F32Scales::kBytes),
              F16Scales::at(block + h * F16Scales::kBytes));
      }
      Dot::widen(block + 2 * F16Scales::kBytes, wide + 2 * F32Scales::kBytes);
    }
    return out;
  }
};

// How a float type lies in a panel: of two neighbouring k, the lanes of half a panel.
struct PairF32 {
  static constexpr uint32_t kHalfBytes = 4 * kLanes;
  static constexpr uint32_t kBytes = 4 * kHalfBytes;
  static F32x16 even(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
  static F32x16 odd(const uint8_t* p) { return even(p + 2 * kHalfBytes); }
};
struct PairF16 {
  static constexpr uint32_t kHalfBytes = 2 * kLanes;
  static constexpr uint32_t kBytes = 4 * kHalfBytes;
  static F32x16 even(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
  static F32x16 odd(const uint8_t* p) { return even(p + 2 * kHalfBytes); }
};
struct PairBf16 {  // pairs of k side by side
  static constexpr uint32_t kHalfBytes = 4 * kLanes;
  static constexpr uint32_t kBytes = 2 * kHalfBytes;
  static F32x16 even(const uint8_t* p) {
    return load_bf16_even(reinterpret_cast<const uint16_t*>(p));
  }
  static F32x16 odd(const uint8_t* p) {
    return load_bf16_odd(reinterpret_cast<const uint16_t*>(p));
  }
};

// The register tile of float weights; a unit is a pair of k.
template <class Pair, Ahead kAhead>
struct FloatTile {
  template <uint32_t H, uint32_t R>
  static inline void add_products(const F32x16 (&w)[H], const uint8_t* x, F32x16 (&sums)[R][H]) {
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; ++r) {
      const F32x16 one = set1(load_as<float>(x + 4 * r));
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) sums[r][h] = fma(one, w[h], sums[r][h]);
    }
  }

  template <uint32_t H, uint32_t R>
  [[gnu::noinline]] static void run(const Tile& t) {
    F32x16 sums[R][H];
    load_sums<H, R>(t, sums);
    const uint8_t* x = t.x;
    const uint8_t* values = t.weights + t.half * Pair::kHalfBytes;
    for (uint32_t pair = 0; pair < t.n_units; ++pair) {
      prefetch_ahead<kAhead, Pair::kBytes, R * 8>(t, values, x);
      F32x16 w[H];
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) w[h] = Pair::even(values + h * Pair::kHalfBytes);
      add_products<H, R>(w, x, sums);
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) w[h] = Pair::odd(values + h * Pair::kHalfBytes);
      add_products<H, R>(w, x + R * 4, sums);
      x += R * 8;
      values += Pair::kBytes;
    }
    store_sums<H, R>(t, sums);
  }
};

template <class Pair>
struct FloatKernel : FloatTile<Pair, Ahead::kWeights> {
  using Wide = FloatTile<PairF32, Ahead::kRows>;
  static constexpr uint32_t kUnit = 2;
  static constexpr uint32_t kHalves = Tiles::kFloatHalves;
  static constexpr uint32_t kRows = Tiles::kFloatRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kFloatUnitsInL1;
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

inline constexpr ActivationKernels kF32Activations = {
    Tiles::kFloatRows, [](uint32_t k) { return (size_t{k} + k % 2) * sizeof(float); }, pack_f32};
inline constexpr ActivationKernels kInt8Activations = {
    Tiles::kQuantRows, [](uint32_t k) { return k / kActivationBlock * size_t{kInt8BlockBytes}; },
    pack_int8};

const MatmulKernels kMatmulKernels = {
    .activations = {kF32Activations, {}, kInt8Activations},
    .f32 = {ActivationFormat::kF32, multiply<FloatKernel<PairF32>>},
    .f16 = {ActivationFormat::kF32, multiply<FloatKernel<PairF16>>},
    .bf16 = {ActivationFormat::kF32, multiply<FloatKernel<PairBf16>>},
    .q8_0 = {ActivationFormat::kInt8, multiply<QuantKernel<DotQ8, DotQ8>>},
    .q4_0 = {ActivationFormat::kInt8, multiply<QuantKernel<DotQ4, DotWideQ4>>},
};
