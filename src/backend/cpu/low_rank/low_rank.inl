// Kernels of low_rank_kernels.h. Included inside the namespace of an instruction set, after its
// vector functions.

namespace {

struct F32Elements {
  static constexpr uint32_t kBytes = 4;
  static F32x16 read(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Elements {
  static constexpr uint32_t kBytes = 2;
  static F32x16 read(const std::byte* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
};
struct Bf16Elements {
  static constexpr uint32_t kBytes = 2;
  static F32x16 read(const std::byte* p) { return load_bf16(reinterpret_cast<const uint16_t*>(p)); }
};

// Number of pieces or panels that are processed in parallel. Few rows need several, because a
// single chain would be limited by its latency.
template <uint32_t R>
inline constexpr uint32_t kSideBySide = R == 1   ? 4
                                        : R <= 4 ? 2
                                                 : 1;

// Computes the sums of R rows and one vector of ranks, over n columns of each of P pieces: R · P
// parallel chains.
template <class Elements, uint32_t R, uint32_t P>
inline void down_pieces(const LowRankDownTask& t, uint32_t lane, uint32_t begin, uint32_t n) {
  const size_t step = size_t{t.n_ranks} * Elements::kBytes;
  const size_t first_byte = (size_t{begin} - t.begin) * step + size_t{lane} * Elements::kBytes;
  const std::byte* a = t.a + first_byte;
  const std::byte* ahead = t.ahead + first_byte;
  F32x16 sums[P * R];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < P * R; ++i) sums[i] = zero();
  for (uint32_t k = begin; k < begin + n; ++k, a += step, ahead += step) {
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) {
      const F32x16 weights = Elements::read(a + p * kLowRankPiece * step);
      __builtin_prefetch(ahead + p * kLowRankPiece * step, 0, 2);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < R; ++r) {
        sums[p * R + r] = fma(set1(t.x[r][k + p * kLowRankPiece]), weights, sums[p * R + r]);
      }
    }
  }
  const uint32_t first = (begin - t.begin) / kLowRankPiece;
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
#pragma GCC unroll 8
    for (uint32_t r = 0; r < R; ++r) {
      const bool is_alone = t.piece_stride != 0 || first + p == 0;
      float* out = t.out + (first + p) * t.piece_stride + size_t{r} * t.n_ranks + lane;
      store(out, is_alone ? sums[p * R + r] : add(load(out), sums[p * R + r]));
    }
  }
}

template <class Elements, uint32_t R>
inline void down_rows(const LowRankDownTask& t) {
  if (t.n_rows == R) {
    constexpr uint32_t kPieces = kSideBySide<R>;
    uint32_t begin = t.begin;
    for (; begin + kPieces * kLowRankPiece <= t.end; begin += kPieces * kLowRankPiece) {
      for (uint32_t lane = 0; lane < t.n_ranks; lane += kLanes) {
        down_pieces<Elements, R, kPieces>(t, lane, begin, kLowRankPiece);
      }
    }
    for (; begin < t.end; begin += kLowRankPiece) {
      const uint32_t left = t.end - begin;
      for (uint32_t lane = 0; lane < t.n_ranks; lane += kLanes) {
        down_pieces<Elements, R, 1>(t, lane, begin, left < kLowRankPiece ? left : kLowRankPiece);
      }
    }
  } else if constexpr (R > 1) {
    down_rows<Elements, R - 1>(t);
  }
}

void down(const LowRankDownTask& t) {
  switch (t.type) {
    case ElementType::kF16:
      return down_rows<F16Elements, kLowRankRows>(t);
    case ElementType::kBF16:
      return down_rows<Bf16Elements, kLowRankRows>(t);
    default:
      return down_rows<F32Elements, kLowRankRows>(t);
  }
}

// Computes P panels of columns in parallel. The last panel may have fewer columns than lanes.
template <class Elements, uint32_t R, uint32_t P>
inline void up_panels(const LowRankUpTask& t, const std::byte* b, uint32_t column) {
  const size_t panel_bytes = size_t{t.n_ranks} * kLanes * Elements::kBytes;
  const std::byte* ahead = t.ahead + (b - t.b);
  F32x16 sums[P * R];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < P * R; ++i) sums[i] = zero();
  constexpr size_t kStep = kLanes * Elements::kBytes;
  for (uint32_t rank = 0; rank < t.n_ranks; ++rank, b += kStep, ahead += kStep) {
#pragma GCC unroll 4
    for (uint32_t p = 0; p < P; ++p) {
      const F32x16 weights = Elements::read(b + p * panel_bytes);
      __builtin_prefetch(ahead + p * panel_bytes, 0, 2);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < R; ++r) {
        const F32x16 h = set1(t.scratch[size_t{r} * t.sum_stride + rank]);
        sums[p * R + r] = fma(h, weights, sums[p * R + r]);
      }
    }
  }
#pragma GCC unroll 4
  for (uint32_t p = 0; p < P; ++p) {
    const uint32_t left = t.n_columns - column - p * kLanes;
#pragma GCC unroll 8
    for (uint32_t r = 0; r < R; ++r) {
      float* out = t.out[r] + column + p * kLanes;
      if (left >= kLanes) {
        store(out, add(load(out), sums[p * R + r]));
      } else {
        store_first(out, add(load_first(out, left), sums[p * R + r]), left);
      }
    }
  }
}

template <class Elements, uint32_t R>
inline void up_rows(const LowRankUpTask& t) {
  if (t.n_rows == R) {
    constexpr uint32_t kPanels = kSideBySide<R>;
    const size_t panel_bytes = size_t{t.n_ranks} * kLanes * Elements::kBytes;
    const std::byte* b = t.b;
    uint32_t column = 0;
    for (; column + kPanels * kLanes <= t.n_columns; column += kPanels * kLanes) {
      up_panels<Elements, R, kPanels>(t, b, column);
      b += kPanels * panel_bytes;
    }
    for (; column < t.n_columns; column += kLanes, b += panel_bytes) {
      up_panels<Elements, R, 1>(t, b, column);
    }
  } else if constexpr (R > 1) {
    up_rows<Elements, R - 1>(t);
  }
}

// Adds up the sums of all chunks in ascending order, and multiplies them by the scale.
inline void add_chunks(const LowRankUpTask& t) {
  for (uint32_t r = 0; r < t.n_rows; ++r) {
    for (uint32_t lane = 0; lane < t.sum_stride; lane += kLanes) {
      const float* sums = t.sums + size_t{r} * t.sum_stride + lane;
      F32x16 sum = load(sums);
      for (uint32_t chunk = 1; chunk < t.n_chunks; ++chunk) {
        sum = add(sum, load(sums + size_t{chunk} * t.sum_rows * t.sum_stride));
      }
      store(t.scratch + size_t{r} * t.sum_stride + lane, mul(set1(t.scale), sum));
    }
  }
}

void up(const LowRankUpTask& t) {
  add_chunks(t);
  switch (t.type) {
    case ElementType::kF16:
      return up_rows<F16Elements, kLowRankRows>(t);
    case ElementType::kBF16:
      return up_rows<Bf16Elements, kLowRankRows>(t);
    default:
      return up_rows<F32Elements, kLowRankRows>(t);
  }
}

}  // namespace

const LowRankKernels kLowRankKernels = {.down = down, .up = up};
