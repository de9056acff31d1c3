// K in int4 by channel: each dimension of a page has a level of its own for nibble 0 and a step of
// its own (KIVI, Liu et al. 2024). Part of attention.inl.
//
// Trained models have dimensions of K that differ in size and, within a page, in how much they
// vary; a step for each of them suits both. Readers unpack a page to int8 levels that share a scale
// (attention_levels.inl), once for all queries, so that queries need no step of their own for each
// page.

// The values that a channel has in a page lie in [low, high].
struct ChannelRange {
  float low, high;
};

// keys: of sixteen tokens, then of the others. A NaN is not counted.
inline ChannelRange range_of_channel(const uint16_t* keys, size_t other_tile) {
  const F32x16 most = set1(__FLT_MAX__);
  const F32x16 minus_one = set1(-1.0f);
  F32x16 high = mul(most, minus_one);
  F32x16 minus_low = high;
  for (const uint16_t* tile : {keys, keys + other_tile}) {
    const F32x16 x = load_bf16(tile);
    high = max(x, high);
    minus_low = max(mul(x, minus_one), minus_low);
  }
  const ChannelRange range = {-max_lanes(minus_low), max_lanes(high)};
  return range.low <= range.high ? range : ChannelRange{0.0f, 0.0f};
}

// A value of a channel has the nibble (x · inverse − first_level) · nibbles_per_level, rounded.
struct ChannelQuantum {
  uint8_t first, step;  // as the page has them
  float first_level, nibbles_per_level;
};

inline float limited_level(float level) {
  return level < -127.0f ? -127.0f : level > 127.0f ? 127.0f : level;
}
// Rounds to the nearest integer, ties to even; |x| below 2^22.
inline float nearest(float x) { return x + 0x1.8p23f - 0x1.8p23f; }

// Nibble 0 stands for at most the lowest value, nibble 15 for at least the highest; no level is
// above 255.
inline ChannelQuantum quantum_of_channel(ChannelRange range, float inverse) {
  const float low = nearest(limited_level(range.low * inverse) - 0.5f);
  const float first_level = low < -127.0f ? -127.0f : low;
  const auto first = static_cast<uint32_t>(first_level + 128.0f);
  const float span = limited_level(range.high * inverse) - first_level;
  const auto step = static_cast<uint32_t>(nearest(span * (256.0f / 255.0f) + 0.5f));
  const uint32_t most = (65535 - 128 - 256 * first) / 255;
  const uint32_t limited = lesser(step, lesser(most, 255));
  return {
      .first = static_cast<uint8_t>(first),
      .step = static_cast<uint8_t>(limited),
      .first_level = first_level,
      .nibbles_per_level = limited == 0 ? 0.0f : 256.0f / (17.0f * static_cast<float>(limited))};
}

inline void write_channels(const KvBlockLayout& layout, const std::byte* open_block,
                           std::byte* block) {
  const uint32_t dims = key_dims(layout);
  const size_t other_tile = size_t{layout.head_dim} * kLanes;
  const auto* keys = reinterpret_cast<const uint16_t*>(open_block);
  auto* nibbles = reinterpret_cast<uint8_t*>(block);
  uint8_t* firsts = nibbles + size_t{dims} * kPageTokens / 2;
  float scales[kLanes] = {};
  __builtin_memset(block, 0, layout.k_bytes());
  for (uint32_t group = 0; group < layout.n_key_groups(); ++group) {
    const uint32_t begin = group * layout.key_group_dims();
    const uint32_t end = lesser(begin + layout.key_group_dims(), layout.head_dim);
    ChannelRange ranges[kMostHeadDim];
    float peak = 0.0f;
    for (uint32_t d = begin; d < end; ++d) {
      ranges[d - begin] = range_of_channel(keys + size_t{d} * kLanes, other_tile);
      const ChannelRange& range = ranges[d - begin];
      const float most = range.high > -range.low ? range.high : -range.low;
      peak = most > peak ? most : peak;
    }
    const Quantum quantum = quantum_for(peak, 127.0f);
    scales[group] = quantum.scale;
    for (uint32_t d = begin; d < end; ++d) {
      const ChannelQuantum channel = quantum_of_channel(ranges[d - begin], quantum.inverse);
      firsts[d] = channel.first;
      firsts[dims + d] = channel.step;
      for (uint32_t tile = 0; tile < kTilesPerPage; ++tile) {
        const F32x16 x = load_bf16(keys + tile * other_tile + size_t{d} * kLanes);
        const F32x16 levels = sub(mul(x, set1(quantum.inverse)), set1(channel.first_level));
        const F32x16 steps = mul(levels, set1(channel.nibbles_per_level));
        int8_t of_tokens[kLanes];
        store_i8(of_tokens, round_to_i32(min(max(steps, zero()), set1(15.0f))));
        uint8_t* at = nibbles + (size_t{tile} * dims / 8 + d / 8) * 64 + d % 4;
        for (uint32_t token = 0; token < kLanes; ++token) {
          at[token * 4] |= static_cast<uint8_t>(of_tokens[token] << (d % 8 / 4 * 4));
        }
      }
    }
  }
  __builtin_memcpy(firsts + 2 * dims, scales, sizeof(scales));
}
