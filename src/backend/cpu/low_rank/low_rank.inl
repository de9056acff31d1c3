// The kernels of low_rank_kernels.h. Included inside an instruction set's namespace, after its
// vocabulary.

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

// R rows and one vector of ranks over one piece: R chains side by side.
template <class Elements, uint32_t R>
inline void down_piece(const LowRankDownTask& t, uint32_t lane, uint32_t begin, uint32_t end) {
  const size_t step = size_t{t.n_ranks} * Elements::kBytes;
  const std::byte* a = t.a + (size_t{begin} - t.begin) * step + size_t{lane} * Elements::kBytes;
  F32x16 sums[R];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < R; ++r) sums[r] = zero();
  for (uint32_t k = begin; k < end; ++k, a += step) {
    const F32x16 weights = Elements::read(a);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < R; ++r) sums[r] = fma(set1(t.x[r][k]), weights, sums[r]);
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < R; ++r) {
    float* out = t.out + size_t{r} * t.n_ranks + lane;
    store(out, begin == t.begin ? sums[r] : add(load(out), sums[r]));
  }
}

template <class Elements, uint32_t R>
inline void down_rows(const LowRankDownTask& t) {
  if (t.n_rows == R) {
    for (uint32_t begin = t.begin; begin < t.end; begin += kLowRankPiece) {
      const uint32_t left = t.end - begin;
      const uint32_t end = begin + (left < kLowRankPiece ? left : kLowRankPiece);
      for (uint32_t lane = 0; lane < t.n_ranks; lane += kLanes) {
        down_piece<Elements, R>(t, lane, begin, end);
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

// One panel of columns.
template <class Elements, uint32_t R>
inline void up_panel(const LowRankUpTask& t, const std::byte* b, uint32_t column) {
  F32x16 sums[R];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < R; ++r) sums[r] = zero();
  for (uint32_t rank = 0; rank < t.n_ranks; ++rank, b += kLanes * Elements::kBytes) {
    const F32x16 weights = Elements::read(b);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < R; ++r) {
      sums[r] = fma(set1(t.scratch[size_t{r} * t.sum_stride + rank]), weights, sums[r]);
    }
  }
  const uint32_t left = t.n_columns - column;
#pragma GCC unroll 8
  for (uint32_t r = 0; r < R; ++r) {
    float* out = t.out[r] + column;
    if (left >= kLanes) {
      store(out, add(load(out), sums[r]));
    } else {
      store_first(out, add(load_first(out, left), sums[r]), left);
    }
  }
}

template <class Elements, uint32_t R>
inline void up_rows(const LowRankUpTask& t) {
  if (t.n_rows == R) {
    const std::byte* b = t.b;
    for (uint32_t column = 0; column < t.n_columns; column += kLanes) {
      up_panel<Elements, R>(t, b, column);
      b += size_t{t.n_ranks} * kLanes * Elements::kBytes;
    }
  } else if constexpr (R > 1) {
    up_rows<Elements, R - 1>(t);
  }
}

// The sums of all chunks, scaled.
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
