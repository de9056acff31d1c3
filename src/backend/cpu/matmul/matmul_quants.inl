// Register tiles and kernels of quantized weights. Included by matmul.inl and by the files of
// further types, after matmul_loops.inl.

// Scales of a block of 32 k. A policy defines:
//
//   kBlocks        number of blocks in a unit, after its header; 0: a run-time parameter
//   kHeaderBytes   bytes of a unit's header
//   kBytes         bytes of a block's own scales
//   kParts         number of sub-blocks, each with a scale
//   kMinima        number of minima that are subtracted: 1, or 2 for the first and second 16 k
//   type Of<H>     the header's values for the H halves of a panel that a tile processes

struct F16Scales {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0, kBytes = 4 * kLanes;
  static constexpr uint32_t kParts = 1, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    Of(const uint8_t*, uint32_t first_half) : half(first_half) {}
    F32x16 scale(const uint8_t* p, uint32_t, uint32_t h) const {
      return load_f16(reinterpret_cast<const uint16_t*>(p) + (half + h) * kLanes);
    }
  };
};

// Widened scales: f32 [kParts][32], then the negative minima [kMinima][32].
template <uint32_t kPartsOfBlock, uint32_t kMinimaOfBlock>
struct F32Scales {
  static constexpr uint32_t kBlocks = 1, kHeaderBytes = 0;
  static constexpr uint32_t kParts = kPartsOfBlock, kMinima = kMinimaOfBlock;
  static constexpr uint32_t kBytes = (kParts + kMinima) * 8 * kLanes;
  static float* at(uint8_t* p, uint32_t part, uint32_t half) {
    return reinterpret_cast<float*>(p) + (2 * part + half) * kLanes;
  }
  template <uint32_t H>
  struct Of {
    uint32_t half;
    Of(const uint8_t*, uint32_t first_half) : half(first_half) {}
    F32x16 scale(const uint8_t* p, uint32_t part, uint32_t h) const {
      return load(reinterpret_cast<const float*>(p) + (2 * part + half + h) * kLanes);
    }
    F32x16 minus_minimum(const uint8_t* p, uint32_t part, uint32_t h) const {
      return scale(p, kParts + part, h);
    }
  };
};

// q4_k, q5_k: f16 scales [32] and minima [32] per 256 k, times bytes [32] and [32] per 32 k.
struct ByteScalesAndMinima {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 8 * kLanes, kBytes = 4 * kLanes;
  static constexpr uint32_t kParts = 1, kMinima = 1;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H], minus_minima[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) {
        scales[h] = load_f16(p + h * kLanes);
        minus_minima[h] = sub(zero(), load_f16(p + (2 + h) * kLanes));
      }
    }
    F32x16 scale(const uint8_t* p, uint32_t, uint32_t h) const {
      return mul(scales[h], load_u8(p + (half + h) * kLanes));
    }
    F32x16 minus_minimum(const uint8_t* p, uint32_t, uint32_t h) const {
      return mul(minus_minima[h], load_u8(p + (2 + half + h) * kLanes));
    }
  };
};

// q6_k: f16 scales [32] per 256 k, times signed bytes [2][32] per 32 k, one for each 16 k.
struct ByteScalesOfHalves {
  static constexpr uint32_t kBlocks = 8, kHeaderBytes = 4 * kLanes, kBytes = 4 * kLanes;
  static constexpr uint32_t kParts = 2, kMinima = 0;
  template <uint32_t H>
  struct Of {
    uint32_t half;
    F32x16 scales[H];
    Of(const uint8_t* header, uint32_t first_half) : half(first_half) {
      const auto* p = reinterpret_cast<const uint16_t*>(header) + half * kLanes;
      for (uint32_t h = 0; h < H; ++h) scales[h] = load_f16(p + h * kLanes);
    }
    F32x16 scale(const uint8_t* p, uint32_t part, uint32_t h) const {
      return mul(scales[h],
                 load_i8(reinterpret_cast<const int8_t*>(p) + (2 * part + half + h) * kLanes));
    }
  };
};

// The words of one block of activations, for a tile of R rows. A Dot whose operands have
// kStartTimes times the offset of the start word multiplies what that subtracts from the shift.
template <class Dot, uint32_t R>
struct BlockWords {
  const uint8_t* words;
  int32_t start(uint32_t part, uint32_t r) const {
    const auto start = load_as<int32_t>(words + (Dot::kStartWord + part) * 4 * R + 4 * r);
    if constexpr (requires { Dot::kStartTimes; }) {
      const auto shift_bits = load_as<uint32_t>(words + 4 * r);
      const uint32_t offset = static_cast<uint32_t>(start) - shift_bits;
      return static_cast<int32_t>(shift_bits + Dot::kStartTimes * offset);
    }
    return start;
  }
  float shift(uint32_t r) const { return load_as<float>(words + 4 * r); }
  float level_sum(uint32_t part, uint32_t r) const {
    return load_as<float>(words + (1 + part) * 4 * R + 4 * r);
  }
};

// Source of the levels of half a panel: the block itself or, for a Dot with a type Prepared, data
// that is prepared from the block's own scales. It is prepared kPreparations times, each time for
// an equal number of steps.
template <class Dot>
struct PackedLevels {
  const uint8_t* block;
  uint32_t half;
  PackedLevels() = default;
  PackedLevels(const uint8_t* b, uint32_t h, uint32_t) : block(b), half(h) {}
  typename Dot::Weights load(uint32_t step) const { return Dot::load(block, half, step); }
};
template <class Dot>
struct LevelsOf {
  using Type = PackedLevels<Dot>;
  static constexpr uint32_t kPreparations = 1;
};
template <class Dot>
requires requires { typename Dot::Prepared; }
struct LevelsOf<Dot> {
  using Type = typename Dot::Prepared;
  static constexpr uint32_t kPreparations = Dot::kPreparations;
};

struct DiscardWeights {
  template <class Weights>
  void operator()(const Weights&, uint32_t, uint32_t) const {}
};

// Computes Σ w · level of one sub-block, times the block's power of two, for R rows and H halves.
template <class Dot, uint32_t kParts, uint32_t H, uint32_t R>
struct PartSums {
  typename Dot::Sums dots[R][H];

  // keep(weights, half, group) is called with the unpacked weights, so that other rows can use
  // them.
  template <class Words, class Keep = DiscardWeights>
  inline void multiply(const uint8_t* quants, uint32_t half, const uint8_t* x, Words words,
                       uint32_t part, Keep keep = {}) {
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) dots[r][h] = Dot::begin(words.start(part, r));
    }
    constexpr uint32_t kSteps = 8 / kParts;
    constexpr uint32_t kStepsPrepared = 8 / LevelsOf<Dot>::kPreparations;
    typename LevelsOf<Dot>::Type from[H];
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kSteps; ++i) {
      const uint32_t step = part * kSteps + i;
      if (i == 0 || step % kStepsPrepared == 0) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < H; ++h) from[h] = {quants, half + h, step / kStepsPrepared};
      }
      typename Dot::Weights w[H];
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) {
        w[h] = from[h].load(step);
        keep(w[h], half + h, Dot::group_of(step));
      }
      const auto* levels = reinterpret_cast<const int8_t*>(x) + 4 * Dot::group_of(step);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < R; ++r) {
        const auto four = broadcast_levels(levels + kActivationBlock * r);
#pragma GCC unroll 2
        for (uint32_t h = 0; h < H; ++h) dots[r][h] = Dot::add(dots[r][h], w[h], four);
      }
      if constexpr (requires { Dot::kStepsOfPairs; }) {
        static_assert(kSteps % Dot::kStepsOfPairs == 0);
        if ((i + 1) % Dot::kStepsOfPairs == 0) widen_pairs();
      }
    }
  }

  inline void widen_pairs() {
#pragma GCC unroll 16
    for (uint32_t r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) dots[r][h] = Dot::widen_pairs(dots[r][h]);
    }
  }

  // Returns the result for row r and half h.
  template <class Words>
  inline F32x16 at(uint32_t r, uint32_t h, uint32_t part, Words words) const {
    const float shift = words.shift(r);
    const I32x16 bits = Dot::end(dots[r][h], words.start(part, r), shift);
    return sub(float_of_bits(bits), set1(shift));
  }
};

// kWords: number of words per row and block in the activation format.
template <class Dot, class Scales, uint32_t kWords, Ahead kAhead>
struct QuantTile {
  static constexpr uint32_t kBlockBytes = Scales::kBytes + Dot::kBlockBytes;
  static uint32_t blocks_of_unit(const Tile& t) {
    return Scales::kBlocks > 0 ? Scales::kBlocks : t.unit_blocks;
  }
  static constexpr uint32_t kRowBlockBytes = kActivationBlock + kWords * 4;

  [[gnu::always_inline]] static inline void prefetch_header(const Tile& t, const uint8_t* header) {
    if constexpr (kAhead == Ahead::kWeights) prefetch_weights<Scales::kHeaderBytes>(t, header);
  }

  template <uint32_t H, uint32_t R>
  static inline void add_block(const typename Scales::template Of<H>& scales, const uint8_t* block,
                               const uint8_t* x, F32x16 (&sums)[R][H]) {
    const uint8_t* quants = block + Scales::kBytes;
    const BlockWords<Dot, R> words = {x + R * kActivationBlock};
#pragma GCC unroll 2
    for (uint32_t part = 0; part < Scales::kParts; ++part) {
      PartSums<Dot, Scales::kParts, H, R> products;
      products.multiply(quants, scales.half, x, words, part);
#pragma GCC unroll 2
      for (uint32_t h = 0; h < H; ++h) {
        const F32x16 scale = scales.scale(block, part, h);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < R; ++r) {
          sums[r][h] = fma(products.at(r, h, part, words), scale, sums[r][h]);
        }
      }
    }
    if constexpr (Scales::kMinima > 0) {
#pragma GCC unroll 2
      for (uint32_t part = 0; part < Scales::kMinima; ++part) {
#pragma GCC unroll 2
        for (uint32_t h = 0; h < H; ++h) {
          const F32x16 minus_minimum = scales.minus_minimum(block, part, h);
#pragma GCC unroll 16
          for (uint32_t r = 0; r < R; ++r) {
            sums[r][h] = fma(set1(words.level_sum(part, r)), minus_minimum, sums[r][h]);
          }
        }
      }
    }
  }

  template <uint32_t H, uint32_t R>
  [[gnu::noinline]] static void run(const Tile& t) {
    F32x16 sums[R][H];
    load_sums<H, R>(t, sums);
    const uint8_t* block = t.weights;
    const uint8_t* x = t.x;
    const uint32_t n_blocks = blocks_of_unit(t);
    for (uint32_t unit = 0; unit < t.n_units; ++unit) {
      prefetch_header(t, block);
      const typename Scales::template Of<H> scales(block, t.half);
      block += Scales::kHeaderBytes;
      for (uint32_t b = 0; b < n_blocks; ++b) {
        prefetch_ahead<kAhead, kBlockBytes, R * kRowBlockBytes>(t, block, x);
        add_block<H, R>(scales, block, x, sums);
        block += kBlockBytes;
        x += R * kRowBlockBytes;
      }
    }
    store_sums<H, R>(t, sums);
  }
};

// Multiplies more than kRows rows at once, up to Tiles::kFewRows (seven to sixteen with AVX-512,
// four to six with AVX-VNNI): for decoding several sequences together. The rows are in one or two
// tiles of activations, and the sums are in memory. Levels are unpacked once for all rows, while
// they are read from memory, and both halves of a panel share the broadcast values of a row.
template <class Dot, class Scales, class WideDot, uint32_t kWords>
struct FewRowsTile : QuantTile<Dot, Scales, kWords, Ahead::kWeights> {
  using Base = QuantTile<Dot, Scales, kWords, Ahead::kWeights>;

  struct StoreWeights {
    uint8_t* block;
    void operator()(typename Dot::Weights w, uint32_t half, uint32_t group) const {
      WideDot::store(w, block, half, group);
    }
  };

  // Adds the products of one block for R rows. D: layout of the quants.
  template <class D, uint32_t R, class Keep>
  [[gnu::always_inline]] static inline void add_rows(const typename Scales::template Of<2>& scales,
                                                     const uint8_t* block, const uint8_t* quants,
                                                     const uint8_t* x, float* sums, Keep keep) {
    const BlockWords<D, R> words = {x + R * kActivationBlock};
#pragma GCC unroll 2
    for (uint32_t part = 0; part < Scales::kParts; ++part) {
      PartSums<D, Scales::kParts, 2, R> products;
      products.multiply(quants, 0, x, words, part, keep);
#pragma GCC unroll 2
      for (uint32_t h = 0; h < 2; ++h) {
        const F32x16 scale = scales.scale(block, part, h);
        F32x16 minus_minima[2];
        if constexpr (Scales::kMinima > 0) {
#pragma GCC unroll 2
          for (uint32_t m = 0; m < Scales::kMinima; ++m) {
            minus_minima[m] = scales.minus_minimum(block, m, h);
          }
        }
#pragma GCC unroll 8
        for (uint32_t r = 0; r < R; ++r) {
          float* to = sums + (2 * r + h) * kLanes;
          F32x16 sum = fma(products.at(r, h, part, words), scale, load(to));
          static_assert(Scales::kMinima == 0 || Scales::kParts == 1);
#pragma GCC unroll 2
          for (uint32_t m = 0; m < Scales::kMinima; ++m) {
            sum = fma(set1(words.level_sum(m, r)), minus_minima[m], sum);
          }
          store(to, sum);
        }
      }
    }
  }

  template <uint32_t R>
  [[gnu::noinline]] static void run(const Tile& t) {
    constexpr uint32_t kFirst = few_rows_tile(R);
    constexpr uint32_t kSecond = R - kFirst;
    alignas(64) uint8_t unpacked[WideDot::kBlockBytes];
    for (uint32_t i = 0; i < 2 * R; ++i) store(t.sums + i * kLanes, zero());
    const uint8_t* block = t.weights;
    const uint8_t* x = t.x;
    const uint8_t* second_x = t.x + t.next_x;
    const uint32_t n_blocks = Base::blocks_of_unit(t);
    for (uint32_t unit = 0; unit < t.n_units; ++unit) {
      Base::prefetch_header(t, block);
      const typename Scales::template Of<2> scales(block, 0);
      block += Scales::kHeaderBytes;
      for (uint32_t b = 0; b < n_blocks; ++b) {
        prefetch_ahead<Ahead::kWeights, Base::kBlockBytes, R * Base::kRowBlockBytes>(t, block, x);
        const uint8_t* quants = block + Scales::kBytes;
        if constexpr (kSecond == 0) {
          add_rows<Dot, R>(scales, block, quants, x, t.sums, DiscardWeights());
        } else {
          add_rows<Dot, kFirst>(scales, block, quants, x, t.sums, StoreWeights{unpacked});
          add_rows<WideDot, kSecond>(scales, block, unpacked, second_x,
                                     t.sums + 2 * kFirst * kLanes, DiscardWeights());
        }
        block += Base::kBlockBytes;
        x += kFirst * Base::kRowBlockBytes;
        second_x += kSecond * Base::kRowBlockBytes;
      }
    }
  }

  template <uint32_t R = Tiles::kFewRows>
  static void run_rows(const Tile& tile, uint32_t n_rows) {
    if constexpr (R > Tiles::kQuantRows) {
      if (n_rows == R) return run<R>(tile);
      run_rows<R - 1>(tile, n_rows);
    }
  }
};

// Kernel of a type with quantized weights. For many rows, scales are widened to f32 and levels to
// bytes, once for all rows. Each block is then a unit.
template <class Dot, class Scales, class WideDot, uint32_t kWords,
          uint32_t kBlocks = Scales::kBlocks>
struct QuantKernel : QuantTile<Dot, Scales, kWords, Ahead::kWeights> {
  using Packed = QuantTile<Dot, Scales, kWords, Ahead::kWeights>;
  using FewRows = FewRowsTile<Dot, Scales, WideDot, kWords>;
  using WideScales = F32Scales<Scales::kParts, Scales::kMinima>;
  using Wide = QuantTile<WideDot, WideScales, kWords, Ahead::kRows>;
  static constexpr uint32_t kUnit = kActivationBlock * kBlocks;
  static constexpr uint32_t kUnitBlocks = kBlocks, kWideUnits = kBlocks;
  static constexpr uint32_t kHalves = Tiles::kQuantHalves;
  static constexpr uint32_t kRows = Tiles::kQuantRows;
  static constexpr uint32_t kUnitsInL1 = Tiles::kQuantBlocksInL1 / kBlocks;
  static constexpr uint32_t kUnitBytes = Scales::kHeaderBytes + kBlocks * Packed::kBlockBytes;
  static constexpr uint32_t kWideUnitBytes = kBlocks * Wide::kBlockBytes;
  static constexpr size_t kRowUnitBytes = Packed::kRowBlockBytes * kBlocks;
  static constexpr uint32_t kTilesWorthWidening = 4;
  static constexpr bool kHasRowScales = true;
  static constexpr bool kHasFewRows = Tiles::kFewRows > kRows;

  static void widen_block(const typename Scales::template Of<2>& scales, const uint8_t* block,
                          uint8_t* out) {
    for (uint32_t h = 0; h < 2; ++h) {
      for (uint32_t part = 0; part < Scales::kParts; ++part) {
        store(WideScales::at(out, part, h), scales.scale(block, part, h));
      }
      if constexpr (Scales::kMinima > 0) {
        for (uint32_t part = 0; part < Scales::kMinima; ++part) {
          store(WideScales::at(out, Scales::kParts + part, h),
                scales.minus_minimum(block, part, h));
        }
      }
    }
    Dot::widen(block + Scales::kBytes, out + WideScales::kBytes);
  }

  static const uint8_t* widen(const uint8_t* packed, uint32_t n_units, uint8_t* out) {
    uint8_t* wide = out;
    for (uint32_t unit = 0; unit < n_units; ++unit) {
      const typename Scales::template Of<2> scales(packed, 0);
      packed += Scales::kHeaderBytes;
      for (uint32_t b = 0; b < kBlocks; ++b) {
        widen_block(scales, packed, wide);
        packed += Packed::kBlockBytes;
        wide += Wide::kBlockBytes;
      }
    }
    return out;
  }
};
