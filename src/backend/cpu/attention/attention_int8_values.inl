// Computes the sums of a split from the levels of weights and of V, for quantized pages. Part of
// attention_int8.inl.

// The V of a page.
struct ValuePage {
  const int8_t* levels;
  uint32_t levels_at;  // offset, in a row, of the levels of the page's tokens
};

struct ValuePages {
  uint32_t n = 0;
  ValuePage pages[kSplitPages];
};

// Adds the V of the listed pages, times one plane of the weights' levels, to the sums of M rows in
// N blocks of 16 dimensions.
template <uint32_t kPlane, uint32_t M, uint32_t N>
inline void add_values(const uint8_t* levels, const ValuePages& list, uint32_t first_block,
                       ReadAhead& ahead, IntSums (&sums)[M][N]) {
  for (uint32_t i = 0; i < list.n; ++i) {
    ReadAhead::Steps steps = ahead.take(kPageTokens / 4 * N);
    const ValuePage& page = list.pages[i];
    const size_t offset = first_block * kValueBlockBytes;
#pragma GCC unroll 8
    for (uint32_t group = 0; group < kPageTokens / 4; ++group) {  // long iterations: see add_keys
      ValueBytes values[N];
#pragma GCC unroll 4
      for (uint32_t n = 0; n < N; ++n) {
        const size_t at = offset + n * kValueBlockBytes + group * 64;
        values[n] = load_values(page.levels + at);
        steps.step(group * N + n);
      }
#pragma GCC unroll 16
      for (uint32_t m = 0; m < M; ++m) {
        const LevelWord word =
            level_word<kPlane>(levels + m * kLevelStride + page.levels_at, group);
#pragma GCC unroll 4
        for (uint32_t n = 0; n < N; ++n) sums[m][n] = dot_values(sums[m][n], values[n], word);
      }
    }
  }
}

// Writes the sums of row m, times the scale of quanta[m], to out + m · out_stride.
template <uint32_t M, uint32_t N>
inline void weigh_int8_tile(const uint8_t* levels, const ValuePages (&lists)[2],
                            const QuantScale* quanta, uint32_t first_block, ReadAhead& ahead,
                            float* out, uint32_t out_stride) {
  IntSums sums[M][N];
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) sums[m][n] = zero_sums();
  }
  if constexpr (kLevelPlanes == 2) {
    if (lists[0].n > 0) {
      add_values<0>(levels, lists[0], first_block, ahead, sums);
#pragma GCC unroll 16
      for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
        for (uint32_t n = 0; n < N; ++n) sums[m][n] = next_plane(sums[m][n]);
      }
    }
  }
  add_values<kLevelPlanes - 1>(levels, lists[1], first_block, ahead, sums);
#pragma GCC unroll 16
  for (uint32_t m = 0; m < M; ++m) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < N; ++n) {
      store(out + m * size_t{out_stride} + (first_block + n) * kLanes,
            mul(to_f32(end_sums(sums[m][n])), set1(quanta[m].scale)));
    }
  }
}

template <uint32_t M>
inline void weigh_int8_blocks(const uint8_t* levels, const ValuePages (&lists)[2],
                              const QuantScale* quanta, Range blocks, ReadAhead& ahead, float* out,
                              uint32_t out_stride) {
  constexpr uint32_t kMost = kInt8Vectors<M>;
  uint32_t i = blocks.begin;
  for (; i + kMost <= blocks.end; i += kMost) {
    weigh_int8_tile<M, kMost>(levels, lists, quanta, i, ahead, out, out_stride);
  }
  for (; i < blocks.end; ++i)
    weigh_int8_tile<M, 1>(levels, lists, quanta, i, ahead, out, out_stride);
}

// Computes the split's sums for all pairs of a chunk, in some blocks of dimensions, from the levels
// of the weights and the V of pages [begin, end) of the split.
inline void weigh_int8_values(const Block& block, Chunk chunk, const LevelSplit& split, Range pages,
                              const ChunkLevels& weights, Range dim_blocks, ReadAhead& ahead) {
  const auto* levels = reinterpret_cast<const uint8_t*>(block.spare);
  ValuePages lists[2];
  for (uint32_t page = pages.begin; page < pages.end; ++page) {
    const ValuePage values = {.levels = split.values[page],
                              .levels_at = levels_of_page(page * kPageTokens)};
    if (weights.planes == LevelPlanes::kBoth &&
        uses_first_plane(levels, chunk.size(), page / 2 * 2 * kPageTokens)) {
      lists[0].pages[lists[0].n++] = values;
    }
    lists[1].pages[lists[1].n++] = values;
  }
  with_count<kInt8TileRows>(chunk.size(), [&](auto m) {
    weigh_int8_blocks<m.value>(levels, lists, weights.quanta, dim_blocks, ahead,
                               block.split.sums + size_t{chunk.begin} * block.padded_dim(),
                               block.padded_dim());
  });
}
