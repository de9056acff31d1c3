// Register tile of float weights. Included by matmul.inl and matmul_fp8.inl, after
// matmul_loops.inl.

// Layout of a float type in a panel. even() and odd() load half a panel of the first and of the
// second k of a pair.
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
struct PairBf16 {  // stored as pairs of adjacent k
  static constexpr uint32_t kHalfBytes = 4 * kLanes;
  static constexpr uint32_t kBytes = 2 * kHalfBytes;
  static F32x16 even(const uint8_t* p) {
    return load_bf16_even(reinterpret_cast<const uint16_t*>(p));
  }
  static F32x16 odd(const uint8_t* p) {
    return load_bf16_odd(reinterpret_cast<const uint16_t*>(p));
  }
};

// Adds the products of one k: R rows of x times H halves of a panel.
template <uint32_t H, uint32_t R>
inline void add_products(const F32x16 (&w)[H], const uint8_t* x, F32x16 (&sums)[R][H]) {
#pragma GCC unroll 16
  for (uint32_t r = 0; r < R; ++r) {
    const F32x16 one = set1(load_as<float>(x + 4 * r));
#pragma GCC unroll 2
    for (uint32_t h = 0; h < H; ++h) sums[r][h] = fma(one, w[h], sums[r][h]);
  }
}

// Register tile of float weights. A unit is a pair of k.
template <class Pair, Ahead kAhead>
struct FloatTile {
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
