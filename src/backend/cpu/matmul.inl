// The matrix products of one instruction set: included by matmul_<isa>.cpp inside its namespace,
// after its vocabulary (vec_<isa>.h, dot_<isa>.h) and a `struct Tiles` with the register tiles.
// matmul_kernels.h states the layouts and the arithmetic.

// One call of a micro-kernel: some panels, one tile of rows, part of k.
struct Tile {
  const uint8_t* weights;  // panel p begins at weights + p · panel_bytes, at k = 0
  size_t panel_bytes;
  const uint8_t* x;  // this tile's, at k = 0
  uint32_t k;
  uint32_t begin, end;  // of the kernel's units of k
  float* sums;          // [rows][panels · 16]: read where begin > 0, written always
};

template <class T>
inline T load_as(const uint8_t* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(value));
  return value;
}

template <uint32_t kPanels, uint32_t kRows>
inline void load_sums(const Tile& t, F32x16 (&sums)[kRows][kPanels]) {
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t p = 0; p < kPanels; ++p) {
      sums[r][p] = t.begin == 0 ? zero() : load(t.sums + (r * kPanels + p) * kLanes);
    }
  }
}

template <uint32_t kPanels, uint32_t kRows>
inline void store_sums(const Tile& t, const F32x16 (&sums)[kRows][kPanels]) {
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t p = 0; p < kPanels; ++p) store(t.sums + (r * kPanels + p) * kLanes, sums[r][p]);
  }
}

// Weights in blocks of 32 with one scale. A panel: the blocks' quants, then their f16 scales.
template <class Dot>
struct QuantKernel {
  static constexpr uint32_t kUnit = kActivationBlock;
  static constexpr uint32_t kPanels = Tiles::kQuantPanels;
  static constexpr uint32_t kRows = Tiles::kQuantRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kQuantUnitsInL1;
  static size_t row_bytes(uint32_t k) { return size_t{k} / kUnit * (kUnit + 3 * sizeof(float)); }

  template <uint32_t P, uint32_t R>
  static void run(const Tile& t) {
    F32x16 sums[R][P];
    load_sums<P, R>(t, sums);
    const uint8_t* x = t.x + row_bytes(t.k) / (t.k / kUnit) * R * t.begin;
    const size_t scales_begin = size_t{t.k} / kUnit * Dot::kBlockBytes;
    for (uint32_t b = t.begin; b < t.end; ++b) {
      const uint8_t* quants = t.weights + size_t{b} * Dot::kBlockBytes;
      const uint8_t* scales = t.weights + scales_begin + size_t{b} * 2 * kLanes;
      const uint8_t* x_scales = x + R * kUnit;
      const uint8_t* offsets = x_scales + R * sizeof(float) * (Dot::kOffset == 8 ? 1 : 2);
      typename Dot::Sums dots[R][P];
#pragma GCC unroll 16
      for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) dots[r][p] = Dot::begin(load_as<int32_t>(offsets + 4 * r));
      }
#pragma GCC unroll 8
      for (uint32_t step = 0; step < Dot::kSteps; ++step) {
        typename Dot::Weights w[P];
#pragma GCC unroll 4
        for (uint32_t p = 0; p < P; ++p) w[p] = Dot::load(quants + p * t.panel_bytes, step);
        const auto* levels =
            reinterpret_cast<const int8_t*>(x) + size_t{Dot::group_of(step)} * 4 * R;
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          const auto four = broadcast_levels(levels + 4 * r);
#pragma GCC unroll 4
          for (uint32_t p = 0; p < P; ++p) dots[r][p] = Dot::add(dots[r][p], w[p], four);
        }
      }
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) {
        const uint8_t* at = scales + p * t.panel_bytes;
        const F32x16 w_scale = load_f16(reinterpret_cast<const uint16_t*>(at));
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          const F32x16 scale = mul(w_scale, set1(load_as<float>(x_scales + 4 * r)));
          const I32x16 dot = Dot::end(dots[r][p], load_as<int32_t>(offsets + 4 * r));
          sums[r][p] = fma(to_f32(dot), scale, sums[r][p]);
        }
      }
      x += R * (kUnit + 3 * sizeof(float));
    }
    store_sums<P, R>(t, sums);
  }
};

// How a float type lies in a panel, and two neighbouring k of it as lanes.
struct WidenF32 {
  static constexpr size_t kPairBytes = 2 * kLanes * sizeof(float);
  static F32x16 even(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
  static F32x16 odd(const uint8_t* p) { return load(reinterpret_cast<const float*>(p) + kLanes); }
};
struct WidenF16 {
  static constexpr size_t kPairBytes = 2 * kLanes * sizeof(uint16_t);
  static F32x16 even(const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
  static F32x16 odd(const uint8_t* p) {
    return load_f16(reinterpret_cast<const uint16_t*>(p) + kLanes);
  }
};
struct WidenBf16 {  // pairs of k side by side
  static constexpr size_t kPairBytes = 2 * kLanes * sizeof(uint16_t);
  static F32x16 even(const uint8_t* p) {
    return load_bf16_even(reinterpret_cast<const uint16_t*>(p));
  }
  static F32x16 odd(const uint8_t* p) {
    return load_bf16_odd(reinterpret_cast<const uint16_t*>(p));
  }
};

// Float weights; a unit is a pair of k, and an odd k ends with half of one.
template <class Widen>
struct FloatKernel {
  static constexpr uint32_t kUnit = 2;
  static constexpr uint32_t kPanels = Tiles::kFloatPanels;
  static constexpr uint32_t kRows = Tiles::kFloatRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kFloatUnitsInL1;
  static size_t row_bytes(uint32_t k) { return size_t{k} * sizeof(float); }

  template <uint32_t P, uint32_t R>
  static inline void add_products(const F32x16 (&w)[P], const uint8_t* x, F32x16 (&sums)[R][P]) {
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; ++r) {
      const F32x16 one = set1(load_as<float>(x + r * sizeof(float)));
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) sums[r][p] = fma(one, w[p], sums[r][p]);
    }
  }

  template <uint32_t P, uint32_t R>
  static void run(const Tile& t) {
    F32x16 sums[R][P];
    load_sums<P, R>(t, sums);
    const uint8_t* x = t.x + row_bytes(2) * R * t.begin;
    const uint8_t* weights = t.weights + Widen::kPairBytes * t.begin;
    const bool half_at_end = t.end * kUnit > t.k;
    for (uint32_t pair = t.begin; pair < t.end - half_at_end; ++pair) {
      F32x16 w[P];
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) w[p] = Widen::even(weights + p * t.panel_bytes);
      add_products<P, R>(w, x, sums);
#pragma GCC unroll 4
      for (uint32_t p = 0; p < P; ++p) w[p] = Widen::odd(weights + p * t.panel_bytes);
      add_products<P, R>(w, x + R * sizeof(float), sums);
      x += R * 2 * sizeof(float);
      weights += Widen::kPairBytes;
    }
    if (half_at_end) {
      F32x16 w[P];
      for (uint32_t p = 0; p < P; ++p) w[p] = Widen::even(weights + p * t.panel_bytes);
      add_products<P, R>(w, x, sums);
    }
    store_sums<P, R>(t, sums);
  }
};

#include "backend/cpu/matmul_loops.inl"

inline void pack_f32(const ActivationTile& t) {
  auto* out = reinterpret_cast<float*>(t.out);
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    const float* x = t.x + r * t.stride;
    for (uint32_t k = 0; k < t.k; ++k) out[size_t{k} * t.n_rows + r] = x[k];
  }
}

// One block: level = round(x · 127 / peak), x ≈ peak / 127 · level. Peaks that are nearly zero
// count as zero, so that 127 / peak stays finite; a NaN becomes some level, always the same.
struct LevelBlock {
  int8_t levels[kActivationBlock];
  float scale;
  int32_t sum;
};

inline void quantize_block(const float* x, LevelBlock& block) {
  const F32x16 lo = load(x);
  const F32x16 hi = load(x + kLanes);
  const float peak = max_lanes(max(abs(lo), abs(hi)));
  const bool is_zero = !(peak >= 0x1p-118f);
  const F32x16 inverse = set1(is_zero ? 0.0f : 127.0f / peak);
  block.scale = is_zero ? 0.0f : peak / 127.0f;
  const F32x16 limit = set1(127.0f);
  const F32x16 below = set1(-127.0f);
  store_i8(block.levels, round_to_i32(min(max(mul(lo, inverse), below), limit)));
  store_i8(block.levels + kLanes, round_to_i32(min(max(mul(hi, inverse), below), limit)));
  block.sum = 0;
  for (uint32_t i = 0; i < kActivationBlock; ++i) block.sum += block.levels[i];
}

inline void pack_int8(const ActivationTile& t) {
  auto* out = reinterpret_cast<uint8_t*>(t.out);
  const uint32_t n = t.n_rows;
  for (uint32_t b = 0; b < t.k / kActivationBlock; ++b) {
    uint8_t* words = out + size_t{n} * kActivationBlock;
    for (uint32_t r = 0; r < n; ++r) {
      LevelBlock block;
      quantize_block(t.x + r * t.stride + b * kActivationBlock, block);
      for (uint32_t g = 0; g < kActivationBlock / 4; ++g) {
        __builtin_memcpy(out + (g * n + r) * 4, block.levels + 4 * g, 4);
      }
      const int32_t minus_8_sums = -8 * block.sum;
      const int32_t minus_128_sums = -128 * block.sum;
      __builtin_memcpy(words + 4 * r, &block.scale, 4);
      __builtin_memcpy(words + 4 * (n + r), &minus_8_sums, 4);
      __builtin_memcpy(words + 4 * (2 * n + r), &minus_128_sums, 4);
    }
    out += size_t{n} * (kActivationBlock + 3 * 4);
  }
}

inline constexpr ActivationKernels kF32Activations = {
    Tiles::kFloatRows, [](uint32_t k) { return FloatKernel<WidenF32>::row_bytes(k); }, pack_f32};
inline constexpr ActivationKernels kInt8Activations = {
    Tiles::kQuantRows, [](uint32_t k) { return QuantKernel<DotQ8>::row_bytes(k); }, pack_int8};

const MatmulKernels kMatmulKernels = {
    .activations = {kF32Activations, {}, kInt8Activations},
    .f32 = {ActivationFormat::kF32, multiply<FloatKernel<WidenF32>>},
    .f16 = {ActivationFormat::kF32, multiply<FloatKernel<WidenF16>>},
    .bf16 = {ActivationFormat::kF32, multiply<FloatKernel<WidenBf16>>},
    .q8_0 = {ActivationFormat::kInt8, multiply<QuantKernel<DotQ8>>},
    .q4_0 = {ActivationFormat::kInt8, multiply<QuantKernel<DotQ4>>},
};
