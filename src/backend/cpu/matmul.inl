// The matrix products of one instruction set: included by matmul_<isa>.cpp inside its namespace,
// after its vocabulary (vec_<isa>.h, dot_<isa>.h) and a `struct Tiles` with the register tiles.
// matmul_kernels.h states the layouts and the arithmetic.

#include "backend/cpu/matmul_activations.inl"
#include "backend/cpu/matmul_loops.inl"

template <uint32_t P, uint32_t R>
inline void load_sums(const Tile& t, F32x16 (&sums)[R][P]) {
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t p = 0; p < P; ++p) {
      sums[r][p] = t.is_first ? zero() : load(t.sums + (r * P + p) * kLanes);
    }
  }
}

template <uint32_t P, uint32_t R>
inline void store_sums(const Tile& t, const F32x16 (&sums)[R][P]) {
  for (uint32_t r = 0; r < R; ++r) {
    for (uint32_t p = 0; p < P; ++p) store(t.sums + (r * P + p) * kLanes, sums[r][p]);
  }
}

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
  template <uint32_t P, uint32_t R>
  static void run(const Tile& t) {
    F32x16 sums[R][P];
    load_sums<P, R>(t, sums);
    const uint8_t* quants = t.weights.values;
    const uint8_t* scales = t.weights.scales;
    const uint8_t* x = t.x;
    for (uint32_t b = 0; b < t.n_units; ++b) {
      prefetch_ahead<kAhead, P, Dot::kBlockBytes, R * kInt8BlockBytes>(t, quants, x);
      typename Dot::Sums dots[R][P];
      const uint8_t* x_scales = x + R * kActivationBlock;
      const uint8_t* offsets = x_scales + R * 4 * (Dot::kOffset == 8 ? 1 : 2);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) dots[r][p] = Dot::begin(load_as<int32_t>(offsets + 4 * r));
      }
#pragma GCC unroll 8
      for (uint32_t step = 0; step < Dot::kSteps; ++step) {
        typename Dot::Weights w[P];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) {
          w[p] = Dot::load(quants + p * t.weights.value_stride, step);
        }
        const auto* levels = reinterpret_cast<const int8_t*>(x) + 4 * Dot::group_of(step);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          const auto four = broadcast_levels(levels + kActivationBlock * r);
#pragma GCC unroll 4
          for (uint32_t p = 0; p < P; ++p) dots[r][p] = Dot::add(dots[r][p], w[p], four);
        }
      }
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) {
        const F32x16 w_scale = Scales::at(scales + p * t.weights.scale_stride);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          const F32x16 scale = mul(w_scale, set1(load_as<float>(x_scales + 4 * r)));
          const I32x16 dot = Dot::end(dots[r][p], load_as<int32_t>(offsets + 4 * r));
          sums[r][p] = fma(to_f32(dot), scale, sums[r][p]);
        }
      }
      quants += Dot::kBlockBytes;
      scales += Scales::kBytes;
      x += R * kInt8BlockBytes;
    }
    store_sums<P, R>(t, sums);
  }
};

// A panel: the blocks' quants, then their f16 scales. Where many rows pass by, scales are widened
// to f32 and nibbles to bytes (WideDot), once for all of them.
template <class Dot, class WideDot>
struct QuantKernel : QuantTile<Dot, F16Scales, Ahead::kWeights> {
  using Wide = QuantTile<WideDot, F32Scales, Ahead::kRows>;
  static constexpr uint32_t kUnit = kActivationBlock;
  static constexpr uint32_t kPanels = Tiles::kQuantPanels;
  static constexpr uint32_t kRows = Tiles::kQuantRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kQuantUnitsInL1;
  static constexpr size_t kRowUnitBytes = kInt8BlockBytes;
  static constexpr bool kWidensQuants = Dot::kBlockBytes != WideDot::kBlockBytes;
  static constexpr size_t kWidePanelBytes =
      kUnitsInL1 * (WideDot::kBlockBytes * kWidensQuants + F32Scales::kBytes);

  static Weights weights(const uint8_t* panel, size_t panel_bytes, uint32_t n_units,
                         uint32_t unit) {
    return {panel + size_t{unit} * Dot::kBlockBytes,
            panel + size_t{n_units} * Dot::kBlockBytes + size_t{unit} * F16Scales::kBytes,
            panel_bytes, panel_bytes};
  }

  static Weights widen(const Weights& packed, uint32_t n_panels, uint32_t n_units, uint8_t* out) {
    Weights wide = {out, out, kWidePanelBytes, kWidePanelBytes};
    if (kWidensQuants) {
      wide.scales += kUnitsInL1 * WideDot::kBlockBytes;
    } else {
      wide.values = packed.values;
      wide.value_stride = packed.value_stride;
    }
    for (uint32_t p = 0; p < n_panels; ++p) {
      uint8_t* values = out + p * wide.value_stride;
      uint8_t* scales = out + (wide.scales - out) + p * wide.scale_stride;
      const uint8_t* quants = packed.values + p * packed.value_stride;
      const uint8_t* halves = packed.scales + p * packed.scale_stride;
      for (uint32_t b = 0; b < n_units; ++b) {
        if constexpr (kWidensQuants)
          Dot::widen(quants + b * Dot::kBlockBytes, values + b * WideDot::kBlockBytes);
        store(reinterpret_cast<float*>(scales + b * F32Scales::kBytes),
              F16Scales::at(halves + b * F16Scales::kBytes));
      }
    }
    return wide;
  }
};

// How a float type lies in a panel: two neighbouring k of it as lanes.
struct PairF32 {
  static constexpr uint32_t kBytes = 2 * 4 * kLanes;
  static F32x16 even(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
  static F32x16 odd(const uint8_t* p) { return load(reinterpret_cast<const float*>(p) + kLanes); }
};
struct PairF16 {
  static constexpr uint32_t kBytes = 2 * 2 * kLanes;
  static F32x16 even(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
  static F32x16 odd(const uint8_t* p) {
    return load_f16(reinterpret_cast<const uint16_t*>(p) + kLanes);
  }
};
struct PairBf16 {  // pairs of k side by side
  static constexpr uint32_t kBytes = 2 * 2 * kLanes;
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
  template <uint32_t P, uint32_t R>
  static inline void add_products(const F32x16 (&w)[P], const uint8_t* x, F32x16 (&sums)[R][P]) {
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; ++r) {
      const F32x16 one = set1(load_as<float>(x + 4 * r));
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) sums[r][p] = fma(one, w[p], sums[r][p]);
    }
  }

  template <uint32_t P, uint32_t R>
  static void run(const Tile& t) {
    F32x16 sums[R][P];
    load_sums<P, R>(t, sums);
    const uint8_t* x = t.x;
    const uint8_t* values = t.weights.values;
    for (uint32_t pair = 0; pair < t.n_units; ++pair) {
      prefetch_ahead<kAhead, P, Pair::kBytes, R * 8>(t, values, x);
      F32x16 w[P];
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) w[p] = Pair::even(values + p * t.weights.value_stride);
      add_products<P, R>(w, x, sums);
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) w[p] = Pair::odd(values + p * t.weights.value_stride);
      add_products<P, R>(w, x + R * 4, sums);
      x += R * 8;
      values += Pair::kBytes;
    }
    store_sums<P, R>(t, sums);
  }
};

template <class Pair>
struct FloatKernel : FloatTile<Pair, Ahead::kWeights> {
  using Wide = FloatTile<PairF32, Ahead::kRows>;
  static constexpr uint32_t kUnit = 2;
  static constexpr uint32_t kPanels = Tiles::kFloatPanels;
  static constexpr uint32_t kRows = Tiles::kFloatRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kFloatUnitsInL1;
  static constexpr size_t kRowUnitBytes = 2 * sizeof(float);
  static constexpr size_t kWidePanelBytes = kUnitsInL1 * PairF32::kBytes;

  static Weights weights(const uint8_t* panel, size_t panel_bytes, uint32_t, uint32_t unit) {
    return {panel + size_t{unit} * Pair::kBytes, nullptr, panel_bytes, 0};
  }

  static Weights widen(const Weights& packed, uint32_t n_panels, uint32_t n_units, uint8_t* out) {
    if (Pair::kBytes == PairF32::kBytes) return packed;
    for (uint32_t p = 0; p < n_panels; ++p) {
      auto* wide = reinterpret_cast<float*>(out + p * kWidePanelBytes);
      const uint8_t* values = packed.values + p * packed.value_stride;
      for (uint32_t pair = 0; pair < n_units; ++pair) {
        store(wide + 2 * kLanes * pair, Pair::even(values + pair * Pair::kBytes));
        store(wide + 2 * kLanes * pair + kLanes, Pair::odd(values + pair * Pair::kBytes));
      }
    }
    return {out, nullptr, kWidePanelBytes, 0};
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
