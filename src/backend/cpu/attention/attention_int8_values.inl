// Computes the sums of a split from the levels of weights and of V, for quantized pages. Part of
// attention_int8.inl.

// Groups of four tokens of a page, and words of the bits of those of a split.
constexpr uint32_t kPageGroups = kPageTokens / 4;
constexpr uint32_t kGroupWords = kSplitTokens / 4 / 64;

// The V of a page.
struct ValuePage {
  const int8_t* values;
  uint32_t levels_at;  // offset, in a row, of the levels of the page's tokens
};

struct ValuePages {
  uint32_t first = 0;  // page of the split
  uint32_t n = 0;
  ValuePage pages[kSplitPages];
};

// Forms of V: levels, or nibbles, of which a tile of a single block of dimensions takes the low or
// the high ones. The level of nibble n is 2 · n − 15.
enum class ValueForm { kLevels, kNibbles, kHighNibbles };

// Returns the V of four tokens in block n of N blocks that begin with first_block.
template <ValueForm kForm, uint32_t N>
inline ValueBytes load_value_block(const int8_t* page, uint32_t first_block, uint32_t n,
                                   uint32_t group) {
  if constexpr (kForm == ValueForm::kLevels) {
    return load_values(page + (first_block + n) * kValueBlockBytes + group * 64);
  } else {
    const auto* packed = reinterpret_cast<const uint8_t*>(page) +
                         (first_block + n) / 2 * kValueBlockBytes + group * 64;
    const bool is_high = N == 1 ? kForm == ValueForm::kHighNibbles : n % 2 == 1;
    return is_high ? load_value_nibbles<true>(packed) : load_value_nibbles<false>(packed);
  }
}

// Adds the V of the listed pages, times the last plane of the weights' levels, to the sums of M
// rows in N blocks of 16 dimensions.
template <ValueForm kForm, uint32_t M, uint32_t N>
inline void add_values(const uint8_t* levels, const ValuePages& list, uint32_t first_block,
                       auto& ahead, IntSums (&sums)[M][N]) {
  for (uint32_t i = 0; i < list.n; ++i) {
    auto steps = ahead.take(kPageGroups * N);
    const ValuePage& page = list.pages[i];
#pragma GCC unroll 8
    for (uint32_t group = 0; group < kPageGroups; ++group) {  // long iterations: see add_keys
      ValueBytes values[N];
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) {
        values[n] = load_value_block<kForm, N>(page.values, first_block, n, group);
        steps.step(group * N + n);
      }
#pragma GCC unroll 16
      for (uint32_t m = 0; m < M; ++m) {
        const LevelWord word =
            level_word<kLevelPlanes - 1>(levels + m * kLevelStride + page.levels_at, group);
#pragma GCC unroll 4
        for (uint32_t n = 0; n < N; ++n) sums[m][n] = dot_values(sums[m][n], values[n], word);
      }
    }
  }
}

// Writes V times the high bytes of one row's levels, times 256, as integers to N blocks of 16
// dimensions of `out`. Only the V of groups of four tokens with such bytes is read: of a few,
// because the mean level is 64.
template <ValueForm kForm, uint32_t N>
inline void write_high_sums(const uint8_t* levels, const ValuePages& list, uint32_t first_block,
                            float* out) {
  IntSums sums[N];
#pragma GCC unroll 4
  for (uint32_t n = 0; n < N; ++n) sums[n] = zero_sums();
  for (uint32_t word = 0; word < kGroupWords; ++word) {
    for (uint64_t groups = high_groups(levels, word); groups != 0; groups &= groups - 1) {
      const uint32_t group = 64 * word + static_cast<uint32_t>(__builtin_ctzll(groups));
      const ValuePage& page = list.pages[group / kPageGroups - list.first];
      const LevelWord high = level_word<0>(levels + page.levels_at, group % kPageGroups);
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) {
        const ValueBytes values =
            load_value_block<kForm, N>(page.values, first_block, n, group % kPageGroups);
        sums[n] = dot_values(sums[n], values, high);
      }
    }
  }
#pragma GCC unroll 4
  for (uint32_t n = 0; n < N; ++n) {
    const IntSums sum = next_plane(sums[n]);
    __builtin_memcpy(out + (first_block + n) * kLanes, &sum, sizeof(sum));
  }
}

template <bool kNibbles>
inline void write_high_blocks(const uint8_t* levels, const ValuePages& list, Range blocks,
                              float* out) {
  constexpr ValueForm kForm = kNibbles ? ValueForm::kNibbles : ValueForm::kLevels;
  uint32_t i = blocks.begin;
  for (; i + 4 <= blocks.end; i += 4) write_high_sums<kForm, 4>(levels, list, i, out);
  for (; i < blocks.end; ++i) {
    if (kNibbles && i % 2 == 1) {
      write_high_sums<ValueForm::kHighNibbles, 1>(levels, list, i, out);
    } else {
      write_high_sums<kForm, 1>(levels, list, i, out);
    }
  }
}

// Inputs of all tiles of a chunk.
template <class Ahead>
struct ValueTask {
  const uint8_t* levels;  // of the weights
  const ValuePages& pages;
  const ChunkLevels& weights;
  Ahead& ahead;
  uint32_t out_stride;

  // Returns what a row's sums in a block begin with: those of the high bytes of its levels.
  IntSums first_sums(const float* out, uint32_t m, uint32_t block) const {
    if (kLevelPlanes == 1 || weights.planes == LevelPlanes::kLow) return zero_sums();
    IntSums sums;
    __builtin_memcpy(&sums, out + m * size_t{out_stride} + block * kLanes, sizeof(sums));
    return sums;
  }
};

// Writes the sums of row m, times the scale of its weights, to out + m · out_stride, in place of
// those of the high bytes.
template <ValueForm kForm, uint32_t M, uint32_t N, class Ahead>
inline void weigh_int8_tile(const ValueTask<Ahead>& task, uint32_t first_block, float* out) {
  IntSums sums[M][N];
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) sums[m][n] = task.first_sums(out, m, first_block + n);
  }
  add_values<kForm>(task.levels, task.pages, first_block, task.ahead, sums);
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
    const F32x16 scale = set1(task.weights.quanta[m].scale);
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      IntSums sum = sums[m][n];
      if constexpr (kForm != ValueForm::kLevels) {
        sum = twice_plus(sum, task.weights.minus_15_levels[m]);
      }
      store(out + m * size_t{task.out_stride} + (first_block + n) * kLanes,
            mul(to_f32(end_sums(sum)), scale));
    }
  }
}

// Computes the same from levels of V with the tiles of a matrix unit.
template <class Tiles, uint32_t M, class Ahead>
inline void weigh_by_tiles(const ValueTask<Ahead>& task, Range blocks, float* out) {
  constexpr uint32_t N = Tiles::kColumns;
  for (uint32_t i = blocks.begin; i < blocks.end; i += N) {
    const uint32_t n_columns = lesser(N, blocks.end - i);
    uint32_t columns[N];  // those that are not needed repeat the first
    for (uint32_t n = 0; n < N; ++n) columns[n] = i + (n < n_columns ? n : 0);
    alignas(64) typename Tiles::Sums low;
    Tiles::multiply_values(task.levels + Tiles::kLowPlane, task.pages, columns, low);
    for (uint32_t page = 0; page < task.pages.n; ++page) {
      auto steps = task.ahead.take(2 * kTileSteps);
#pragma GCC unroll 8
      for (uint32_t step = 0; step < 2 * kTileSteps; ++step) steps.step(step);
    }
    for (uint32_t n = 0; n < n_columns; ++n) {
#pragma GCC unroll 8
      for (uint32_t m = 0; m < M; ++m) {
        const IntSums sum = Tiles::add(task.first_sums(out, m, i + n), Tiles::load(low, n, m));
        store(out + m * size_t{task.out_stride} + (i + n) * kLanes,
              mul(to_f32(end_sums(sum)), set1(task.weights.quanta[m].scale)));
      }
    }
  }
}

template <uint32_t M, bool kNibbles, class Ahead>
inline void weigh_int8_blocks(const ValueTask<Ahead>& task, Range blocks, float* out) {
  constexpr ValueForm kForm = kNibbles ? ValueForm::kNibbles : ValueForm::kLevels;
  constexpr uint32_t kMost = kInt8Vectors<M>;
  uint32_t i = blocks.begin;
  if constexpr (kMost > 1) {
    for (; i + kMost <= blocks.end; i += kMost) weigh_int8_tile<kForm, M, kMost>(task, i, out);
  }
  for (; i < blocks.end; ++i) {
    if (kNibbles && i % 2 == 1) {
      weigh_int8_tile<ValueForm::kHighNibbles, M, 1>(task, i, out);
    } else {
      weigh_int8_tile<kForm, M, 1>(task, i, out);
    }
  }
}

template <class Tiles, uint32_t M, class Ahead>
inline void weigh_rows(const ValueTask<Ahead>& task, bool has_nibbles, Range blocks, float* out) {
  if (has_nibbles) return weigh_int8_blocks<M, true>(task, blocks, out);
  if constexpr (M <= Tiles::kRows && M >= Tiles::kLeastRows) {
    weigh_by_tiles<Tiles, M>(task, blocks, out);
  } else {
    weigh_int8_blocks<M, false>(task, blocks, out);
  }
}

// Computes the split's sums for all pairs of a chunk, in some blocks of dimensions, from the levels
// of the weights and the V of pages [begin, end) of the split.
inline void weigh_int8_values(const Block& block, Chunk chunk, const LevelSplit& split, Range pages,
                              const ChunkLevels& weights, Range dim_blocks, auto& ahead) {
  const auto* levels = reinterpret_cast<const uint8_t*>(block.spare);
  ValuePages values;
  values.first = pages.begin;
  for (uint32_t page = pages.begin; page < pages.end; ++page) {
    values.pages[values.n++] = {split.values[page], levels_of_page(page * kPageTokens)};
  }
  const ValueTask task = {levels, values, weights, ahead, block.padded_dim()};
  float* out = block.split.sums + size_t{chunk.begin} * block.padded_dim();
  const bool has_nibbles = has_value_nibbles(block.task.layout);
  if (kLevelPlanes == 2 && weights.planes == LevelPlanes::kBoth) {
    for (uint32_t m = 0; m < chunk.size(); ++m) {
      float* sums = out + m * size_t{task.out_stride};
      if (has_nibbles) {
        write_high_blocks<true>(levels + m * kLevelStride, values, dim_blocks, sums);
      } else {
        write_high_blocks<false>(levels + m * kLevelStride, values, dim_blocks, sums);
      }
    }
  }
  with_count<kInt8TileRows>(chunk.size(), [&](auto m) {
    weigh_rows<MatrixTiles, m.value>(task, has_nibbles, dim_blocks, out);
  });
}
