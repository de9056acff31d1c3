// From scores to weights and their levels, for int8 pages. Part of attention_int8.inl.

constexpr uint32_t kSplitPages = kSplitTokens / kPageTokens;
constexpr uint32_t kLevelStride = kLevelRowBytes + 64;  // as kScoreStride
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

// One row of scores, and what part of the split it sees.
struct ScoreRow {
  float* scores;
  Range seen;   // tokens from the split's begin on
  Range pages;  // of the chunk, likewise

  uint32_t first_tile() const { return seen.begin / kLanes * kLanes; }
  bool is_cut(uint32_t t) const { return t < seen.begin || t + kLanes > seen.end; }
  // The lanes of the tile at t that are seen, the others from `other`.
  F32x16 only_seen(uint32_t t, F32x16 v, F32x16 other) const {
    return select_range(greater(t, seen.begin) - t, lesser(t + kLanes, seen.end) - t, v, other);
  }
};

// The most of the visible scores. With a cap the scores are made whole, and capped, on the way.
inline float top_of_scores(const ScoreRow& row, float query_scale, float cap) {
  const F32x16 unseen = set1(-__builtin_inff());
  F32x16 most = unseen;
  F32x16 other = unseen;
  for (uint32_t t = row.first_tile(); t < row.seen.end; t += kLanes) {
    F32x16 s = load(row.scores + t);
    if (cap != 0.0f) {
      s = soft_capped(mul(s, set1(query_scale)), set1(cap));
      store(row.scores + t, s);
    }
    if (row.is_cut(t)) s = row.only_seen(t, s, unseen);
    const F32x16 newer = max(s, other);
    other = most;
    most = newer;
  }
  return max_lanes(max(most, other));
}

struct WeightSums {
  float total;   // Σ p
  float weight;  // Σ w
  float most;    // max w
};

// Scores become weights w: 2^((score − top) · factor), times V's scale. Never above V's scale.
inline WeightSums weights_of_scores(const ScoreRow& row, float factor, float top,
                                    const float* const* value_scales) {
  F32x16 total = zero();
  F32x16 weight = zero();
  F32x16 most = zero();
  for (uint32_t t = row.first_tile(); t < row.seen.end; t += kLanes) {
    // The max also takes what is no number: an infinite score less an infinite one.
    const F32x16 below = mul(sub(load(row.scores + t), set1(top)), set1(factor));
    const F32x16 x = max(below, set1(-100.0f));
    F32x16 p = power_of_2(x);
    F32x16 w = mul(p, load(value_scales[t / kPageTokens] + t % kPageTokens));
    if (row.is_cut(t)) {
      p = row.only_seen(t, p, zero());
      w = row.only_seen(t, w, zero());
    }
    total = add(total, p);
    weight = add(weight, w);
    most = max(most, w);
    store(row.scores + t, w);
  }
  return {sum_lanes(total), sum_lanes(weight), max_lanes(most)};
}

// Pages of a split as bits.
struct PagesUsed {
  uint32_t any = 0;   // some level is not zero
  uint32_t high = 0;  // some level is above kLastPlaneMost
};

inline PagesUsed store_row_levels(const ScoreRow& row, float inverse, uint8_t* levels) {
  for (uint32_t t = row.pages.begin * kPageTokens; t < row.first_tile(); t += kLanes) {
    store(row.scores + t, zero());
  }
  for (uint32_t t = blocks_of_16(row.seen.end) * kLanes; t < row.pages.end * kPageTokens;
       t += kLanes) {
    store(row.scores + t, zero());
  }
  PagesUsed used;
  for (uint32_t page = row.pages.begin; page < row.pages.end; ++page) {
    const uint32_t t = page * kPageTokens;
    const I32x16 a = round_to_i32(mul(load(row.scores + t), set1(inverse)));
    const I32x16 b = round_to_i32(mul(load(row.scores + t + kLanes), set1(inverse)));
    store_levels(levels, t, a);
    store_levels(levels, t + kLanes, b);
    if (any_above(a, b, 0)) used.any |= 1u << page;
    if (any_above(a, b, kLastPlaneMost)) used.high |= 1u << page;
  }
  return used;
}

// Steps from zero to the most of n weights. What falls below half a step is lost: with 32767 steps
// at most 512 / 65534 of the sum, where one weight stands over 511 tiny ones. Where the mean is at
// least a quarter of the most, 255 steps lose no more than that, and one plane is enough; of a few
// tokens, errors of half a step would not average out.
inline float steps_of_weights(const WeightSums& sums, uint32_t n) {
  const bool are_alike = 4.0f * sums.weight >= sums.most * static_cast<float>(n);
  return are_alike && n >= 128 ? 255.0f : 32767.0f;
}

// What weigh_int8_values needs beside the levels: pages by use, and the scale of each row.
struct ChunkWeights {
  Range pages;  // of the split
  PagesUsed used;
  float scale[kInt8TileRows];
};

inline ChunkWeights weigh_int8_scores(const Block& block, Chunk chunk, Range split) {
  const AttendTask& task = block.task;
  const Range all = common(block.seen_by_any(chunk), split);
  const uint32_t first_page = split.begin / kPageTokens;
  ChunkWeights weights = {};
  weights.pages = {all.begin / kPageTokens - first_page,
                   (all.end - 1) / kPageTokens + 1 - first_page};
  const size_t scales_at =
      task.block_offset + task.layout.head_bytes() - kPageTokens * sizeof(float);
  const float* value_scales[kSplitPages];
  for (uint32_t page = weights.pages.begin; page < weights.pages.end; ++page) {
    value_scales[page] = reinterpret_cast<const float*>(task.pages[first_page + page] + scales_at);
  }
  for (uint32_t pair = chunk.begin; pair < chunk.end; ++pair) {
    const uint32_t m = pair - chunk.begin;
    const Range seen = common(block.visible[pair], split);
    ScoreRow row = {block.scores + m * kScoreStride, {0, 0}, weights.pages};
    float inverse = 0.0f;
    if (!seen.empty()) {
      row.seen = {seen.begin - split.begin, seen.end - split.begin};
      const float query_scale = block.query_scale[pair];
      const float most = top_of_scores(row, query_scale, task.soft_cap);
      const float to_natural = task.soft_cap != 0.0f ? 1.0f : query_scale;
      const float to_binary = to_natural * 0x1.715476p+0f;  // 1 / ln 2
      const WeightSums sums = weights_of_scores(row, to_binary, most, value_scales);
      const Quantum quantum = quantum_for(sums.most, steps_of_weights(sums, seen.end - seen.begin));
      block.split.top[pair] = most * to_natural;
      block.split.total[pair] = sums.total;
      weights.scale[m] = quantum.scale;
      inverse = quantum.inverse;
    }
    const PagesUsed used =
        store_row_levels(row, inverse, reinterpret_cast<uint8_t*>(block.spare) + m * kLevelStride);
    weights.used.any |= used.any;
    weights.used.high |= used.high;
  }
  return weights;
}
