// int4 K by channel: in each tile of sixteen tokens of a page, each dimension (channel) has its own
// level for nibble 0 and its own step (KIVI, Liu et al. 2024). Part of attention.inl.
//
// In trained models, dimensions of K differ in magnitude and in how much they vary between tokens,
// so a step of its own suits each dimension. Pages are unpacked to int8 levels with a common scale
// (attention_levels.inl), once for all queries, so queries need no scales per page.

// Range [low, high] of a channel's values in one tile.
struct ChannelRange {
  float low, high;
};

// Returns the range of a channel in a tile. keys: of the tile's tokens. Ignores NaN.
inline ChannelRange range_of_channel(const uint16_t* keys) {
  const F32x16 x = load_bf16(keys);
  const F32x16 minus_one = set1(-1.0f);
  const F32x16 least = mul(set1(__FLT_MAX__), minus_one);
  const ChannelRange range = {-max_lanes(max(mul(x, minus_one), least)), max_lanes(max(x, least))};
  return range.low <= range.high ? range : ChannelRange{0.0f, 0.0f};
}

// Levels that the nibbles of a channel represent. The nibble of a level is (level − first_level) ·
// nibbles_per_level, rounded.
struct ChannelQuantScale {
  uint8_t first, step;  // as stored in the page
  float first_level, levels_per_nibble, nibbles_per_level;
};

inline float clamped_level(float level) {
  return level < -127.0f ? -127.0f : level > 127.0f ? 127.0f : level;
}
// Rounds to the nearest integer, ties to even; |x| must be below 2^22.
inline float nearest(float x) { return x + 0x1.8p23f - 0x1.8p23f; }

// Returns the quantum of a channel whose levels are in the given range. Nibble 0 represents at most
// the lowest level of the range, and nibble 15 at least the highest one, as far as no level exceeds
// 127.
inline ChannelQuantScale quantum_of_range(ChannelRange levels) {
  const float low = nearest(clamped_level(levels.low) - 0.5f);
  const float first_level = low < -127.0f ? -127.0f : low;
  const auto first = static_cast<uint32_t>(first_level + 128.0f);
  const float span = clamped_level(levels.high) - first_level;
  const auto step = static_cast<uint32_t>(nearest(span * (256.0f / 255.0f) + 0.5f));
  const uint32_t most = (65535 - 128 - 256 * first) / 255;
  const uint32_t limited = lesser(step, lesser(most, 255));
  const float levels_per_nibble = 17.0f / 256.0f * static_cast<float>(limited);
  return {.first = static_cast<uint8_t>(first),
          .step = static_cast<uint8_t>(limited),
          .first_level = first_level,
          .levels_per_nibble = levels_per_nibble,
          .nibbles_per_level = limited == 0 ? 0.0f : 1.0f / levels_per_nibble};
}

inline I32x16 nibbles_of(F32x16 levels, const ChannelQuantScale& channel) {
  const F32x16 above = sub(levels, set1(channel.first_level));
  const F32x16 nibbles = mul(above, set1(channel.nibbles_per_level));
  return round_to_i32(min(max(nibbles, zero()), set1(15.0f)));
}

// Returns the sum of the squared rounding errors of the levels.
inline float squared_error(F32x16 levels, const ChannelQuantScale& channel) {
  const F32x16 nibbles = to_f32(nibbles_of(levels, channel));
  // Unpacking rounds half a level up. Products of nibbles and steps are multiples of 1 / 256 of a
  // level.
  const F32x16 above = add(mul(nibbles, set1(channel.levels_per_nibble)), set1(1.0f / 512.0f));
  const F32x16 stored = add(sub(above, fraction(above)), set1(channel.first_level));
  const F32x16 error = sub(levels, stored);
  return sum_lanes(mul(error, error));
}

// Returns the best of nine quanta. Each end of the range is the smallest or largest level, or a
// third of a step to either side of it. The error is a fifth less than with the range itself,
// because sixteen tokens fit one of nine grids better than the others.
inline ChannelQuantScale quantum_of_channel(F32x16 levels, ChannelRange range) {
  // Relative to the range, which has fifteen steps.
  constexpr float kShifts[] = {0.0f, 0.02f, -0.02f};
  const float span = range.high - range.low;
  ChannelQuantScale best = quantum_of_range(range);
  float least = squared_error(levels, best);
  for (const float low : kShifts) {
    for (const float high : kShifts) {
      if (low == 0.0f && high == 0.0f) continue;  // done before the loops
      const ChannelQuantScale channel =
          quantum_of_range({range.low + low * span, range.high + high * span});
      const float error = squared_error(levels, channel);
      if (error < least) {
        best = channel;
        least = error;
      }
    }
  }
  return best;
}

// Returns the K of the sixteen tokens of a tile in dimension d.
inline const uint16_t* channel_keys(const KvBlockLayout& layout, const uint16_t* keys,
                                    uint32_t tile, uint32_t d) {
  return keys + (size_t{tile} * layout.head_dim + d) * kLanes;
}

inline void write_channels(const KvBlockLayout& layout, const std::byte* open_block,
                           std::byte* block) {
  const uint32_t dims = key_dims(layout);
  const auto* keys = reinterpret_cast<const uint16_t*>(open_block);
  auto* nibbles = reinterpret_cast<uint8_t*>(block);
  uint8_t* channels = nibbles + size_t{dims} * kPageTokens / 2;
  float scales[kLanes] = {};
  __builtin_memset(block, 0, layout.k_bytes());
  for (uint32_t group = 0; group < layout.n_key_groups(); ++group) {
    const uint32_t begin = group * layout.key_group_dims();
    const uint32_t end = lesser(begin + layout.key_group_dims(), layout.head_dim);
    ChannelRange ranges[kTilesPerPage][kMaxHeadDim];
    float peak = 0.0f;
    for (uint32_t tile = 0; tile < kTilesPerPage; ++tile) {
      for (uint32_t d = begin; d < end; ++d) {
        const ChannelRange range = range_of_channel(channel_keys(layout, keys, tile, d));
        const float most = range.high > -range.low ? range.high : -range.low;
        peak = most > peak ? most : peak;
        ranges[tile][d - begin] = range;
      }
    }
    const QuantScale quantum = quantum_for(peak, 127.0f);
    scales[group] = quantum.scale;
    for (uint32_t tile = 0; tile < kTilesPerPage; ++tile) {
      uint8_t* firsts = channels + size_t{tile} * 2 * dims;
      for (uint32_t d = begin; d < end; ++d) {
        const F32x16 x = load_bf16(channel_keys(layout, keys, tile, d));
        const F32x16 levels = mul(x, set1(quantum.inverse));
        const ChannelRange& range = ranges[tile][d - begin];
        const ChannelQuantScale channel =
            quantum_of_channel(levels, {clamped_level(range.low * quantum.inverse),
                                        clamped_level(range.high * quantum.inverse)});
        firsts[d] = channel.first;
        firsts[dims + d] = channel.step;
        int8_t of_tokens[kLanes];
        store_i8(of_tokens, nibbles_of(levels, channel));
        uint8_t* at = nibbles + (size_t{tile} * dims / 8 + d / 8) * 64 + d % 4;
        for (uint32_t token = 0; token < kLanes; ++token) {
          at[token * 4] |= static_cast<uint8_t>(of_tokens[token] << (d % 8 / 4 * 4));
        }
      }
    }
  }
  __builtin_memcpy(channels + size_t{kTilesPerPage} * 2 * dims, scales, sizeof(scales));
}
