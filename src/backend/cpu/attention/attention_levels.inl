// K and V of one split as int8 levels, for all quantized page types. Part of attention.inl.
//
// K of int4 pages is unpacked once for all pairs of a block, V only in registers. Their levels are
// the odd numbers −15 … 15, or those of the channels of K.

inline uint32_t round_up(uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; }

// Return the number of dimensions of K and V that a page stores, with padding.
inline uint32_t key_dims(const KvBlockLayout& layout) {
  return round_up(layout.head_dim, layout.key_type() == KvType::kInt4 ? 8 : 4);
}
inline uint32_t value_dims(const KvBlockLayout& layout) {
  return round_up(layout.value_dim(), layout.value_type() == KvType::kInt4 ? 2 * kLanes : kLanes);
}
// Bytes of int8 V in sixteen dimensions of a page.
constexpr size_t kValueBlockBytes = size_t{kPageTokens} * kLanes;

// Levels of the pages of a split, and the scales of its tokens: [groups][kSplitTokens].
struct LevelSplit {
  const uint8_t* keys[kSplitPages];  // [2][key_dims / 4][16 tokens][4], level + 128
  // [value_dims / 16][32 / 4][16 of d][4]. V in nibbles is [value_dims / 32][32 / 4][16][4], with
  // sixteen dimensions in the low nibbles and the next sixteen in the high ones.
  const int8_t* values[kSplitPages];
  float* key_scales;
  float* value_scales;
};

inline bool has_value_nibbles(const KvBlockLayout& layout) {
  return layout.value_type() == KvType::kInt4 && layout.latent_dim == 0;
}

// Return the size of the scales of a LevelSplit, and of the unpacked levels of a page.
inline size_t level_scale_floats() { return size_t{2} * kMaxGroups * kSplitTokens; }
inline size_t level_page_floats(const KvBlockLayout& layout) {
  const KvBlockLayout as_int4{KvType::kInt4, layout.head_dim, layout.latent_dim};
  const uint32_t of_values = layout.latent_dim == 0 ? 0 : value_dims(as_int4);
  return size_t{kPageTokens} * (key_dims(as_int4) + of_values) / sizeof(float);
}

// Prefetches into the first-level cache. Always inlined, because GCC 12 otherwise takes a function
// that only prefetches for one without effects and removes the calls.
[[gnu::always_inline]] inline void fetch(const std::byte* data, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i += 64) __builtin_prefetch(data + i, 0, 3);
}

// Transposes the latent part of a page's K to the layout of V.
inline void transpose_latent_levels(const KvBlockLayout& layout, const uint8_t* keys,
                                    int8_t* values) {
  constexpr size_t kBytes = kLanes * kLanes;  // of sixteen dimensions of sixteen tokens
  const size_t tile_bytes = size_t{key_dims(layout)} * kLanes;
  for (uint32_t tile = 0; tile < kTilesPerPage; ++tile) {
    for (uint32_t i = 0; i < layout.latent_dim / kLanes; ++i) {
      transpose_keys(keys + tile * tile_bytes + i * kBytes,
                     values + i * kValueBlockBytes + tile * kBytes);
    }
  }
}

// Takes V from the levels of latent K, with the scales of K.
inline void take_latent_values(const Block& block, uint32_t page, uint8_t* room, LevelSplit& out) {
  const KvBlockLayout& layout = block.task.layout;
  auto* values = reinterpret_cast<int8_t*>(room);
  transpose_latent_levels(layout, out.keys[page], values);
  out.values[page] = values;
  out.value_scales = out.key_scales;
}

inline void take_latent_int8_page(const Block& block, uint32_t page, const std::byte* data,
                                  uint8_t* room, LevelSplit& out) {
  const KvBlockLayout& layout = block.task.layout;
  const std::byte* scales = data + size_t{key_dims(layout)} * kPageTokens;
  constexpr size_t kScaleBytes = kPageTokens * sizeof(float);
  out.keys[page] = reinterpret_cast<const uint8_t*>(data);
  for (uint32_t g = 0; g < layout.n_key_groups(); ++g) {
    __builtin_memcpy(out.key_scales + g * kSplitTokens + page * kPageTokens,
                     scales + g * kScaleBytes, kScaleBytes);
  }
  take_latent_values(block, page, room, out);
}

constexpr size_t kInt8ScaleBytes = kPageTokens * sizeof(float);

// Takes K in place and copies its scales. Returns the end of K in the page.
inline const std::byte* take_int8_keys(const KvBlockLayout& layout, uint32_t page,
                                       const std::byte* data, LevelSplit& out) {
  const std::byte* scales = data + size_t{key_dims(layout)} * kPageTokens;
  out.keys[page] = reinterpret_cast<const uint8_t*>(data);
  __builtin_memcpy(out.key_scales + page * kPageTokens, scales, kInt8ScaleBytes);
  return scales + kInt8ScaleBytes;
}

// Takes V in place and copies its scales.
inline void take_int8_values(const KvBlockLayout& layout, uint32_t page, const std::byte* values,
                             LevelSplit& out) {
  const std::byte* scales = values + size_t{value_dims(layout)} * kPageTokens;
  out.values[page] = reinterpret_cast<const int8_t*>(values);
  __builtin_memcpy(out.value_scales + page * kPageTokens, scales, kInt8ScaleBytes);
}

// Unpacks n vectors of 64 bytes to 2 · nibble + offset. The low nibbles of vector i go to out + i ·
// low_stride, and the high nibbles high_offset bytes further.
inline void unpack_levels(const std::byte* packed, uint32_t n, uint8_t offset, uint8_t* out,
                          size_t low_stride, size_t high_offset) {
  const auto* p = reinterpret_cast<const uint8_t*>(packed);
  for (uint32_t i = 0; i < n; ++i) {
    unpack_nibbles(p + size_t{64} * i, offset, out + i * low_stride,
                   out + i * low_stride + high_offset);
  }
}

inline void unpack_scales(const std::byte* packed, uint32_t groups, float* out) {
  const auto* scales = reinterpret_cast<const uint16_t*>(packed);
  for (uint32_t g = 0; g < groups; ++g) {
    for (uint32_t t = 0; t < kPageTokens; t += kLanes) {
      store(out + g * kSplitTokens + t, load_bf16(scales + g * kPageTokens + t));
    }
  }
}

// The parts of one head's K by channel in a page.
struct ChannelBlock {
  const uint8_t* nibbles;  // as in int4 K
  // For each tile, [key_dims] levels of nibble 0 plus 128, then [key_dims] steps in units of 17 /
  // 256 of a level.
  const uint8_t* channels;
  const float* scales;  // of a level: [groups of dimensions]
};
static_assert(kChannelTokens == kLanes);
inline ChannelBlock channel_block(const KvBlockLayout& layout, const std::byte* block) {
  const uint32_t dims = key_dims(layout);
  const auto* nibbles = reinterpret_cast<const uint8_t*>(block);
  const uint8_t* channels = nibbles + size_t{dims} * kPageTokens / 2;
  return {nibbles, channels,
          reinterpret_cast<const float*>(channels + size_t{kTilesPerPage} * 2 * dims)};
}

// Unpacks K by channel to int8 levels, which have a common scale per page and group of dimensions.
inline void unpack_channels(const KvBlockLayout& layout, const std::byte* data, uint8_t* out) {
  const ChannelBlock block = channel_block(layout, data);
  const uint32_t dims = key_dims(layout);
  const uint8_t* nibbles = block.nibbles;
  for (uint32_t tile = 0; tile < kTilesPerPage; ++tile) {
    const uint8_t* firsts = block.channels + size_t{tile} * 2 * dims;
    const uint8_t* steps = firsts + dims;
    for (uint32_t begin = 0; begin < dims; begin += kMaxChannels) {
      const uint32_t n = lesser(kMaxChannels, dims - begin);
      const ChannelSteps channels = channel_steps(firsts + begin, steps + begin, n);
      for (uint32_t channel = 0; channel < n; channel += 8) {
        unpack_channel_nibbles(nibbles, channels, channel, out);
        nibbles += 64;
        out += 128;
      }
    }
  }
}

// Unpacks K by channel to `room`. Returns the end of the levels in `room`.
inline uint8_t* take_channel_keys(const KvBlockLayout& layout, uint32_t page, const std::byte* data,
                                  uint8_t* room, LevelSplit& out) {
  unpack_channels(layout, data, room);
  const float* scales = channel_block(layout, data).scales;
  for (uint32_t g = 0; g < layout.n_key_groups(); ++g) {
    for (uint32_t t = 0; t < kPageTokens; t += kLanes) {
      store(out.key_scales + g * kSplitTokens + page * kPageTokens + t, set1(scales[g]));
    }
  }
  out.keys[page] = room;
  return room + size_t{key_dims(layout)} * kPageTokens;
}

// Unpacks int4 K to `room`. Returns the end of the levels in `room`.
inline uint8_t* take_int4_keys(const KvBlockLayout& layout, uint32_t page, const std::byte* data,
                               uint8_t* room, LevelSplit& out) {
  const uint32_t n_vectors = kTilesPerPage * key_dims(layout) / 8;
  unpack_levels(data, n_vectors, 128 - 15, room, 128, 64);
  unpack_scales(data + size_t{64} * n_vectors, layout.n_key_groups(),
                out.key_scales + page * kPageTokens);
  out.keys[page] = room;
  return room + size_t{128} * n_vectors;
}

// Takes V in place and unpacks its scales.
inline void take_int4_values(const KvBlockLayout& layout, uint32_t page, const std::byte* packed,
                             LevelSplit& out) {
  unpack_scales(packed + size_t{value_dims(layout)} * kPageTokens / 2, layout.n_value_groups(),
                out.value_scales + page * kPageTokens);
  out.values[page] = reinterpret_cast<const int8_t*>(packed);
}

inline void take_int4_page(const Block& block, uint32_t page, const std::byte* data, uint8_t* room,
                           LevelSplit& out) {
  const KvBlockLayout& layout = block.task.layout;
  uint8_t* values = layout.keys_by_channel ? take_channel_keys(layout, page, data, room, out)
                                           : take_int4_keys(layout, page, data, room, out);
  if (layout.latent_dim != 0) return take_latent_values(block, page, values, out);
  take_int4_values(layout, page, data + layout.k_bytes(), out);
}

inline LevelSplit level_split(const Block& block) {
  LevelSplit out;
  out.key_scales = block.scales;
  out.value_scales = block.scales + kMaxGroups * kSplitTokens;
  return out;
}

// Prepares pages [begin, end) of the split, which are those that some pair attends to.
inline LevelSplit load_levels(const Block& block, Range split, Range pages) {
  const AttendTask& task = block.task;
  LevelSplit out = level_split(block);
  const std::byte* const* table = task.pages + split.begin / kPageTokens;
  const size_t block_bytes = task.layout.k_bytes();
  const size_t value_offset = task.layout.value_offset();
  for (uint32_t page = pages.begin; page < pages.end; ++page) {
    const std::byte* data = table[page] + task.block_offset;
    auto* room = reinterpret_cast<uint8_t*>(block.unpacked + page * level_page_floats(task.layout));
    if (task.layout.key_type() == KvType::kInt4) {
      if (page + 1 < pages.end) fetch(table[page + 1] + task.block_offset, block_bytes);
      take_int4_page(block, page, data, room, out);
    } else if (task.layout.latent_dim != 0) {
      take_latent_int8_page(block, page, data, room, out);
    } else if (task.layout.value_type() == KvType::kInt4) {
      take_int4_values(task.layout, page, take_int8_keys(task.layout, page, data, out), out);
    } else {
      take_int8_keys(task.layout, page, data, out);
      take_int8_values(task.layout, page, data + value_offset, out);
    }
  }
  return out;
}
