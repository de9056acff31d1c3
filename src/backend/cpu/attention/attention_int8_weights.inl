// Computes weights and their levels from scores, for quantized pages. Part of attention_int8.inl.

constexpr size_t kInt8LevelFloats = size_t{kInt8TileRows} * kLevelStride / sizeof(float);

// Steps of ReadAhead for sixteen weights. They take about as long as as many steps of a product.
constexpr uint32_t kWeightSteps = 4;

// Returns 2^x for −100 ≤ x ≤ 1 with an error of 8e-5, because the scores are not more accurate.
inline F32x16 power_of_2(F32x16 x) {
  const F32x16 rounder = set1(0x1.8p+23f);
  const F32x16 rounded = add(x, rounder);  // its low bits are the nearest integer
  const F32x16 r = sub(x, sub(rounded, rounder));
  F32x16 q = fma(set1(0x1.c3f76p-5f), r, set1(0x1.f0de1ap-3f));
  q = fma(q, r, set1(0x1.62f31ap-1f));
  q = fma(q, r, set1(0x1.fff692p-1f));
  return add_exponent(q, rounded);
}

// One row of scores and the range of tokens that are visible in the split, counted from the
// beginning of the split. `masks` exclude some of them; null: none.
struct ScoreRow {
  float* scores;
  Range seen;
  const uint32_t* masks = nullptr;

  // Returns the number of visible tokens.
  uint32_t n_seen() const {
    if (masks == nullptr) return seen.end - seen.begin;
    uint32_t n = 0;
    for (uint32_t t = seen.begin / kLanes * kLanes; t < seen.end; t += kLanes) {
      n += static_cast<uint32_t>(__builtin_popcount(visible_bits(t)));
    }
    return n;
  }

  // Calls function(t, cut) for each tile of sixteen tokens with visible ones. cut(v, other) returns
  // v in the visible lanes and `other` in the rest. Without masks, all lanes are visible except for
  // the first and last tile.
  template <class Function>
  void for_tiles(Function function) const {
    if (masks != nullptr) return for_masked_tiles(function);
    const auto whole = [](F32x16 v, F32x16) { return v; };
    const auto at_an_end = [&](uint32_t t) {
      function(t, [&](F32x16 v, F32x16 other) {
        return select_range(greater(t, seen.begin) - t, lesser(t + kLanes, seen.end) - t, v, other);
      });
    };
    const uint32_t first = seen.begin / kLanes * kLanes;
    const uint32_t last = (seen.end - 1) / kLanes * kLanes;
    at_an_end(first);
#pragma GCC unroll 2
    for (uint32_t t = first + kLanes; t < last; t += kLanes) function(t, whole);
    if (last > first) at_an_end(last);
  }

 private:
  // Returns the bits of the visible tokens of the tile that begins at t, if there are masks.
  uint32_t visible_bits(uint32_t t) const {
    uint32_t bits = bits_of_tile(masks, t) & 0xffff;
    if (t < seen.begin) bits &= ~uint32_t{0} << (seen.begin - t);
    if (t + kLanes > seen.end) bits &= (uint32_t{1} << (seen.end - t)) - 1;
    return bits;
  }

  template <class Function>
  void for_masked_tiles(Function function) const {
    for (uint32_t t = seen.begin / kLanes * kLanes; t < seen.end; t += kLanes) {
      const uint32_t bits = visible_bits(t);
      function(t, [&](F32x16 v, F32x16 other) { return select_bits(bits, v, other); });
    }
  }
};

inline float top_of_scores(const ScoreRow& row) {
  const F32x16 unseen = set1(-__builtin_inff());
  F32x16 most = unseen;
  F32x16 other = unseen;  // two chains, because max has a higher latency than the rest of a step
  row.for_tiles([&](uint32_t t, auto cut) {
    const F32x16 newer = max(cut(load(row.scores + t), unseen), other);
    other = most;
    most = newer;
  });
  return max_lanes(max(most, other));
}

inline void cap_scores(const ScoreRow& row, float query_scale, float cap) {
  row.for_tiles([&](uint32_t t, auto) {
    store(row.scores + t, soft_capped(mul(load(row.scores + t), set1(query_scale)), set1(cap)));
  });
}

// Subtracts the maximum from the scores.
inline void subtract_top(const ScoreRow& row, float top) {
  row.for_tiles(
      [&](uint32_t t, auto) { store(row.scores + t, sub(load(row.scores + t), set1(top))); });
}

// If a row's maximum, in powers of two, is at least this, the rounding of products would exceed
// 1/16, so the maximum is subtracted from the scores first.
constexpr float kHugeScore = 0x1p20f;

struct WeightSums {
  float total;   // Σ p
  float weight;  // Σ w
  float most;    // max w
};

// Replaces scores by weights, w = 2^((score − top) · factor) · scale of V. value_scale(t) returns
// the scales of sixteen tokens starting at t. No weight exceeds the scale of its V.
template <class ValueScale>
inline WeightSums weights_of_scores(const ScoreRow& row, float factor, float top, auto& ahead,
                                    ValueScale value_scale) {
  const F32x16 per_score = set1(factor);
  const F32x16 minus_top = set1(-top * factor);
  F32x16 total = zero();
  F32x16 weight = zero();
  F32x16 most = zero();
  row.for_tiles([&](uint32_t t, auto cut) {
    if (ahead.reads_at_weight(t)) {
      auto steps = ahead.take(kWeightSteps);
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kWeightSteps; ++i) steps.step(i);
    }
    // The max also replaces NaN, which results from infinity minus infinity.
    const F32x16 below = fma(load(row.scores + t), per_score, minus_top);
    const F32x16 p = power_of_2(max(below, set1(-100.0f)));
    const F32x16 w = cut(mul(p, value_scale(t)), zero());
    total = add(total, cut(p, zero()));
    weight = add(weight, w);
    most = max(most, w);
    store(row.scores + t, w);
  });
  return {sum_lanes(total), sum_lanes(weight), max_lanes(most)};
}

// out = weights of the row · scales of V.
inline WeightSums scale_weights(const ScoreRow& row, const float* value_scales, float* out) {
  F32x16 weight = zero();
  F32x16 most = zero();
  row.for_tiles([&](uint32_t t, auto cut) {
    const F32x16 w = cut(mul(load(row.scores + t), load(value_scales + t)), zero());
    weight = add(weight, w);
    most = max(most, w);
    store(out + t, w);
  });
  return {0.0f, sum_lanes(weight), max_lanes(most)};
}

// Levels of weights: the least and the largest number of steps to the largest weight, and the level
// of the mean weight in between.
constexpr float kFewSteps = 255.0f;
constexpr float kManySteps = 32767.0f;
constexpr float kMeanLevel = 64.0f;

// Stores the levels of the row's weights in some pages. Levels are zero for tokens outside the
// visible range. Returns the sums of the levels in lanes, if they are wanted: they are exact.
template <LevelPlanes kPlanes, bool kWantsSums>
inline F32x16 store_row_levels(const ScoreRow& row, Range pages, float inverse, uint8_t* levels) {
  const Range all = {pages.begin / 2 * 2 * kPageTokens, (pages.end + 1) / 2 * 2 * kPageTokens};
  const Range seen = row.seen.empty() ? Range{all.end, all.end} : row.seen;
  for (uint32_t t = all.begin; t < seen.begin / kLanes * kLanes; t += kLanes) {
    store(row.scores + t, zero());
  }
  for (uint32_t t = blocks_of_16(seen.end) * kLanes; t < all.end; t += kLanes) {
    store(row.scores + t, zero());
  }
  const F32x16 to_levels = set1(inverse);
  F32x16 sums = zero();
  for (uint32_t t = all.begin; t < all.end; t += 2 * kPageTokens) {
    I32x16 some[4];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 4; ++i) {
      some[i] = round_to_i32(mul(load(row.scores + t + i * kLanes), to_levels));
      if constexpr (kWantsSums) sums = add(sums, to_f32(some[i]));
    }
    store_levels<kPlanes>(levels, t, some);
  }
  return sums;
}

// Returns the number of steps from zero to the largest of n weights. Weights below half a step are
// lost. With 32767 steps this is at most 512 / 65534 of the sum, if one weight is accompanied by
// 511 tiny ones. With as many steps as give the mean weight the level 64, it is at most 1/128 of
// the sum too, and few levels exceed a byte. Few tokens get 32767 steps, because errors of half a
// step would not average out.
inline float steps_of_weights(const WeightSums& sums, uint32_t n) {
  if (n < 128) return kManySteps;
  const float steps = kMeanLevel * static_cast<float>(n) * sums.most / sums.weight;
  return steps < kManySteps ? (steps > kFewSteps ? steps : kFewSteps) : kManySteps;
}

// Quanta of the weights of a chunk's rows. The levels are in block.spare.
struct ChunkLevels {
  QuantScale quanta[kInt8TileRows];
  LevelPlanes planes = LevelPlanes::kLow;  // the planes that any row needs
  int32_t minus_15_levels[kInt8TileRows];  // −15 · the sum of a row's levels, for V in nibbles

  void choose(uint32_t m, const ScoreRow& row, const WeightSums& sums) {
    const float steps = steps_of_weights(sums, row.n_seen());
    quanta[m] = quantum_for(sums.most, steps);
    if (steps > kFewSteps) planes = LevelPlanes::kBoth;
  }
  void store_row(uint32_t m, const ScoreRow& row, Range pages, bool wants_sums, uint8_t* levels) {
    uint8_t* out = levels + m * kLevelStride;
    clear_high_groups(out);
    const float inverse = quanta[m].inverse;
    if (!wants_sums) {
      if (planes == LevelPlanes::kLow) {
        store_row_levels<LevelPlanes::kLow, false>(row, pages, inverse, out);
      } else {
        store_row_levels<LevelPlanes::kBoth, false>(row, pages, inverse, out);
      }
      return;
    }
    const F32x16 sums = planes == LevelPlanes::kLow
                            ? store_row_levels<LevelPlanes::kLow, true>(row, pages, inverse, out)
                            : store_row_levels<LevelPlanes::kBoth, true>(row, pages, inverse, out);
    // Infinite weights have arbitrary levels.
    const float sum = sum_lanes(min(max(sums, zero()), set1(kManySteps * kSplitTokens / kLanes)));
    minus_15_levels[m] = -15 * static_cast<int32_t>(sum);
  }
};

// Converts a chunk's scores to weights and these to levels in block.spare, for pages [begin, end)
// of the split. Also sets the split's maxima and totals. If value_scales is null, weights are not
// multiplied by scales of V, and no levels are stored. Each step processes all rows before the next
// step begins, because the end of a row is a chain of short operations, which overlaps with the
// long operations of the next row.
inline void weigh_int8_scores(const Block& block, Chunk chunk, Range split, Range pages,
                              const float* value_scales, ScoreRow (&rows)[kInt8TileRows],
                              auto& ahead, ChunkLevels& out) {
  const float cap = block.task.soft_cap;
  float maxima[kInt8TileRows];
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    const Range seen = common(block.visible[chunk.begin + m], split);
    rows[m] = {block.scores_of(chunk) + m * kScoreStride, {0, 0}};
    if (seen.empty()) continue;
    rows[m].seen = {seen.begin - split.begin, seen.end - split.begin};
    rows[m].masks = block.masks(chunk.begin + m, split);
    if (cap != 0.0f) cap_scores(rows[m], block.query_scale[chunk.begin + m], cap);
    maxima[m] = top_of_scores(rows[m]);
  }
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    out.quanta[m] = {0.0f, 0.0f};
    if (rows[m].seen.empty()) continue;
    const uint32_t pair = chunk.begin + m;
    const float to_natural = cap != 0.0f ? 1.0f : block.query_scale[pair];
    const float to_binary = to_natural * 0x1.715476p+0f;  // 1 / ln 2
    float top = maxima[m];
    if (!(__builtin_fabsf(top * to_binary) < kHugeScore)) {
      subtract_top(rows[m], top);
      top = 0.0f;
    }
    const WeightSums sums =
        value_scales ? weights_of_scores(rows[m], to_binary, top, ahead,
                                         [=](uint32_t t) { return load(value_scales + t); })
                     : weights_of_scores(rows[m], to_binary, top, ahead,
                                         [](uint32_t) { return set1(1.0f); });
    block.split.top[pair] = maxima[m] * to_natural;
    block.split.total[pair] = sums.total;
    out.choose(m, rows[m], sums);
  }
  if (!value_scales) return;
  auto* levels = reinterpret_cast<uint8_t*>(block.spare);
  const bool wants_sums = has_value_nibbles(block.task.layout);
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    out.store_row(m, rows[m], pages, wants_sums, levels);
  }
}

// Multiplies a chunk's weights by the scales of V in one group of dimensions, and computes their
// levels.
inline ChunkLevels weigh_int8_group(const Block& block, Chunk chunk,
                                    const ScoreRow (&rows)[kInt8TileRows], Range pages,
                                    const float* value_scales) {
  float scaled[kInt8TileRows][kSplitTokens];
  ScoreRow scaled_rows[kInt8TileRows];
  ChunkLevels out;
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    scaled_rows[m] = {scaled[m], rows[m].seen, rows[m].masks};
    out.quanta[m] = {0.0f, 0.0f};
    if (rows[m].seen.empty()) continue;
    out.choose(m, rows[m], scale_weights(rows[m], value_scales, scaled[m]));
  }
  auto* levels = reinterpret_cast<uint8_t*>(block.spare);
  const bool wants_sums = has_value_nibbles(block.task.layout);
  for (uint32_t m = 0; m < chunk.size(); ++m)
    out.store_row(m, scaled_rows[m], pages, wants_sums, levels);
  return out;
}
