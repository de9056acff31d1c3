// From scores to weights and their levels, for int8 pages. Part of attention_int8.inl.

constexpr size_t kInt8LevelFloats = size_t{kInt8TileRows} * kLevelStride / sizeof(float);

// 2^x for −100 ≤ x ≤ 0, to 6e-6, which is less than what the levels of weights keep.
inline F32x16 power_of_2(F32x16 x) {
  constexpr float kRounder = 0x1.8p+23f + 127.0f;  // as in exp_parts
  const F32x16 rounded = add(x, set1(kRounder));
  const F32x16 r = sub(x, sub(rounded, set1(kRounder)));
  F32x16 q = fma(set1(0x1.3d107cp-7f), r, set1(0x1.caccaap-5f));
  q = fma(q, r, set1(0x1.ebf958p-3f));
  q = fma(q, r, set1(0x1.62deb4p-1f));
  q = fma(q, r, set1(1.0f));
  return mul(exponent_from_low_bits(rounded), q);
}

// One row of scores, and what part of the split it sees: tokens from the split's begin on.
struct ScoreRow {
  float* scores;
  Range seen;

  // function(t, cut) for each tile of sixteen that is seen. cut(v, other) has v in its lanes that
  // are seen and `other` in the rest; of all tiles but the first and the last that is v.
  template <class Function>
  void for_tiles(Function function) const {
    const auto whole = [](F32x16 v, F32x16) { return v; };
    const auto at_an_end = [&](uint32_t t) {
      function(t, [&](F32x16 v, F32x16 other) {
        return select_range(greater(t, seen.begin) - t, lesser(t + kLanes, seen.end) - t, v, other);
      });
    };
    const uint32_t first = seen.begin / kLanes * kLanes;
    const uint32_t last = (seen.end - 1) / kLanes * kLanes;
    at_an_end(first);
    for (uint32_t t = first + kLanes; t < last; t += kLanes) function(t, whole);
    if (last > first) at_an_end(last);
  }
};

inline float top_of_scores(const ScoreRow& row) {
  const F32x16 unseen = set1(-__builtin_inff());
  F32x16 most = unseen;
  F32x16 other = unseen;  // two chains, as a max takes longer than the rest of a step
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

struct WeightSums {
  float total;   // Σ p
  float weight;  // Σ w
  float most;    // max w
};

// Scores become weights w: 2^((score − top) · factor), times V's scale: value_scale(t) of sixteen
// tokens from t on. Never above V's scale.
template <class ValueScale>
inline WeightSums weights_of_scores(const ScoreRow& row, float factor, float top,
                                    ValueScale value_scale) {
  F32x16 total = zero();
  F32x16 weight = zero();
  F32x16 most = zero();
  row.for_tiles([&](uint32_t t, auto cut) {
    // The max also takes what is no number: an infinite score less an infinite one.
    const F32x16 below = mul(sub(load(row.scores + t), set1(top)), set1(factor));
    const F32x16 p = power_of_2(max(below, set1(-100.0f)));
    const F32x16 w = cut(mul(p, value_scale(t)), zero());
    total = add(total, cut(p, zero()));
    weight = add(weight, w);
    most = max(most, w);
    store(row.scores + t, w);
  });
  return {sum_lanes(total), sum_lanes(weight), max_lanes(most)};
}

// out = weights times V's scales.
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

// Levels of the row's weights in some pages; of what it does not see they are zero.
inline void store_row_levels(const ScoreRow& row, Range pages, float inverse, uint8_t* levels) {
  const Range tiles = row.seen.empty() ? Range{pages.end * kTilesPerPage, 0} : tiles_of(row.seen);
  for (uint32_t tile = pages.begin * kTilesPerPage; tile < pages.end * kTilesPerPage; ++tile) {
    if (tile == tiles.begin) tile = tiles.end;
    if (tile < pages.end * kTilesPerPage) store(row.scores + tile * kLanes, zero());
  }
  for (uint32_t t = pages.begin * kPageTokens; t < pages.end * kPageTokens; t += kPageTokens) {
    const I32x16 first = round_to_i32(mul(load(row.scores + t), set1(inverse)));
    const I32x16 second = round_to_i32(mul(load(row.scores + t + kLanes), set1(inverse)));
    store_levels(levels, t, first, second);
  }
}

// Steps from zero to the most of n weights. What falls below half a step is lost: with 32767 steps
// at most 512 / 65534 of the sum, where one weight stands over 511 tiny ones. Where the mean is at
// least a quarter of the most, 255 steps lose no more than that, and one plane is enough; of a few
// tokens, errors of half a step would not average out.
inline float steps_of_weights(const WeightSums& sums, uint32_t n) {
  const bool are_alike = 4.0f * sums.weight >= sums.most * static_cast<float>(n);
  return are_alike && n >= 128 ? 255.0f : 32767.0f;
}
inline Quantum quantum_of_weights(const ScoreRow& row, const WeightSums& sums) {
  return quantum_for(sums.most, steps_of_weights(sums, row.seen.end - row.seen.begin));
}

// Turns a chunk's scores into weights, and those into levels in block.spare, of pages [begin, end)
// of the split; sets the split's tops and totals. scale: of each row's levels. Without V's scales
// weights stay as they are. Row by row in each step: what ends a row is a chain of short
// operations, that the next row's long ones fill.
inline void weigh_int8_scores(const Block& block, Chunk chunk, Range split, Range pages,
                              const float* value_scales, ScoreRow (&rows)[kInt8TileRows],
                              float (&scale)[kInt8TileRows]) {
  const float cap = block.task.soft_cap;
  float tops[kInt8TileRows];
  Quantum quanta[kInt8TileRows];
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    const Range seen = common(block.visible[chunk.begin + m], split);
    rows[m] = {block.scores + m * kScoreStride, {0, 0}};
    if (seen.empty()) continue;
    rows[m].seen = {seen.begin - split.begin, seen.end - split.begin};
    if (cap != 0.0f) cap_scores(rows[m], block.query_scale[chunk.begin + m], cap);
    tops[m] = top_of_scores(rows[m]);
  }
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    quanta[m] = {0.0f, 0.0f};
    if (rows[m].seen.empty()) continue;
    const uint32_t pair = chunk.begin + m;
    const float to_natural = cap != 0.0f ? 1.0f : block.query_scale[pair];
    const float to_binary = to_natural * 0x1.715476p+0f;  // 1 / ln 2
    const WeightSums sums =
        value_scales
            ? weights_of_scores(rows[m], to_binary, tops[m],
                                [=](uint32_t t) { return load(value_scales + t); })
            : weights_of_scores(rows[m], to_binary, tops[m], [](uint32_t) { return set1(1.0f); });
    block.split.top[pair] = tops[m] * to_natural;
    block.split.total[pair] = sums.total;
    quanta[m] = quantum_of_weights(rows[m], sums);
  }
  auto* levels = reinterpret_cast<uint8_t*>(block.spare);
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    store_row_levels(rows[m], pages, quanta[m].inverse, levels + m * kLevelStride);
    scale[m] = quanta[m].scale;
  }
}

// The levels of a chunk's weights times V's scales of one group of dimensions.
inline void weigh_int8_group(const Block& block, Chunk chunk, const ScoreRow (&rows)[kInt8TileRows],
                             Range pages, const float* value_scales,
                             float (&scale)[kInt8TileRows]) {
  auto* levels = reinterpret_cast<uint8_t*>(block.spare);
  for (uint32_t m = 0; m < chunk.size(); ++m) {
    float scaled[kSplitTokens];
    const ScoreRow row = {scaled, rows[m].seen};
    Quantum quantum = {0.0f, 0.0f};
    if (!row.seen.empty()) {
      quantum = quantum_of_weights(row, scale_weights(rows[m], value_scales, scaled));
    }
    store_row_levels(row, pages, quantum.inverse, levels + m * kLevelStride);
    scale[m] = quantum.scale;
  }
}
