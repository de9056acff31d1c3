// Writes the K and V of one token into their page. Part of attention.inl.

// Returns the index of an element in one head's K, in f32 or bf16: [2][head_dim][16 tokens].
inline size_t k_element(uint32_t head_dim, uint32_t token, uint32_t d) {
  return (size_t{token / kLanes} * head_dim + d) * kLanes + token % kLanes;
}

inline void store_elements(float* p, F32x16 v) { store(p, v); }
inline void store_elements(uint16_t* p, F32x16 v) { store_bf16(p, v); }

template <class Element>
inline void write_elements(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                           const float* k, const float* v) {
  auto* k_out = reinterpret_cast<Element*>(block);
  auto* v_out = reinterpret_cast<Element*>(block + layout.value_offset());
  const uint32_t head_dim = layout.head_dim;
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    const uint32_t n = lesser(kLanes, head_dim - d);
    Element row[kLanes];
    store_elements(row, load_first(k + d, n));
    for (uint32_t i = 0; i < n; ++i) k_out[k_element(head_dim, token, d + i)] = row[i];
    if (v) store_elements(v_out + v_element(token, d), load_first(v + d, n));
  }
}

// Quantizes one head and calls put(d, levels) for each sixteen dimensions; levels after the last
// dimension are zero. Returns the scale.
template <class Put>
inline float write_levels(const float* x, uint32_t head_dim, Put put) {
  const QuantScale quantum = quantum_of(x, head_dim);
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    int8_t levels[kLanes];
    store_i8(levels, levels_of(load_first(x + d, lesser(kLanes, head_dim - d)), quantum));
    put(d, levels);
  }
  return quantum.scale;
}

// Writes dimensions [begin, end) of K in the layout of int8 pages. Returns the scale.
inline float write_key_levels(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                              const float* k, Range dims) {
  auto* k_out = reinterpret_cast<uint8_t*>(block) +
                size_t{token / kLanes} * key_dims(layout) * kLanes + token % kLanes * 4;
  const uint32_t end = dims.end == layout.head_dim ? key_dims(layout) : dims.end;
  return write_levels(k + dims.begin, dims.end - dims.begin, [&](uint32_t d, const int8_t* levels) {
    for (uint32_t i = 0; i < kLanes && dims.begin + d + i < end; ++i) {
      const uint32_t at = dims.begin + d + i;
      k_out[size_t{at / 4} * 64 + at % 4] = static_cast<uint8_t>(levels[i] + 128);
    }
  });
}

inline void write_latent_int8(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                              const float* k) {
  std::byte* scales = block + size_t{key_dims(layout)} * kPageTokens + token * sizeof(float);
  const Range parts[] = {{0, layout.latent_dim}, {layout.latent_dim, layout.head_dim}};
  for (const Range& part : parts) {
    if (part.begin == part.end) continue;  // there are no RoPE dimensions
    const float scale = write_key_levels(layout, block, token, k, part);
    __builtin_memcpy(scales, &scale, sizeof(float));
    scales += kPageTokens * sizeof(float);
  }
}

inline void write_int8_key(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                           const float* k) {
  const float scale = write_key_levels(layout, block, token, k, {0, layout.head_dim});
  __builtin_memcpy(block + layout.k_bytes() - (kPageTokens - token) * sizeof(float), &scale,
                   sizeof(float));
}

inline void write_int8_value(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                             const float* v) {
  std::byte* v_block = block + layout.value_offset();
  auto* v_out = reinterpret_cast<int8_t*>(v_block) + size_t{token / 4} * 64 + token % 4;
  const float scale = write_levels(v, layout.head_dim, [&](uint32_t d, const int8_t* levels) {
    for (uint32_t i = 0; i < kLanes; ++i) {
      v_out[size_t{d / kLanes} * kValueBlockBytes + i * 4] = levels[i];
    }
  });
  __builtin_memcpy(v_block + layout.v_bytes() - (kPageTokens - token) * sizeof(float), &scale,
                   sizeof(float));
}

// Quantizes one rotated head to int4. Calls put(d, byte) with the nibble of dimension d in the low
// half and that of d + distance in the high half, for the dimensions below n. Dimensions after the
// last one count as zero up to the next multiple of sixteen; after that the nibble is 0. scales: by
// group, kPageTokens apart.
template <class Put>
inline void write_nibbles(const float* x, const KvBlockLayout& layout, uint32_t n,
                          uint32_t distance, uint16_t* scales, Put put) {
  const uint32_t head_dim = layout.head_dim;
  const uint32_t dims = layout.group_dims(KvType::kInt4);
  uint8_t levels[kMaxHeadDim + 2 * kLanes];
  for (uint32_t group = 0; group * dims < head_dim; ++group) {
    const uint32_t end = lesser((group + 1) * dims, head_dim);
    const float step = quantum_of(x + group * dims, end - group * dims).scale * (127.0f / 8.0f);
    uint16_t rounded[kLanes];
    store_bf16(rounded, set1(0.5f * step));
    scales[group * kPageTokens] = rounded[0];
    const float half_step = max_lanes(load_bf16(rounded));
    const float inverse = half_step > 0.0f ? 0.5f / half_step : 0.0f;
    for (uint32_t d = group * dims; d < end; d += kLanes) {
      const F32x16 steps =
          fma(load_first(x + d, lesser(kLanes, end - d)), set1(inverse), set1(7.5f));
      int8_t some[kLanes];
      store_i8(some, round_to_i32(min(max(steps, zero()), set1(15.0f))));
      for (uint32_t i = 0; i < kLanes; ++i) levels[d + i] = static_cast<uint8_t>(some[i]);
    }
  }
  for (uint32_t d = round_up(head_dim, kLanes); d < n; ++d) levels[d] = 0;
  for (uint32_t d = 0; d < n; d += 2 * distance) {
    for (uint32_t i = d; i < d + distance; ++i) {
      put(i, static_cast<uint8_t>(levels[i] | levels[i + distance] << 4));
    }
  }
}

inline void write_int4_key(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                           const float* k) {
  float rotated[kMaxHeadDim];
  auto* k_out = reinterpret_cast<uint8_t*>(block) +
                size_t{token / kLanes} * key_dims(layout) / 8 * 64 + token % kLanes * 4;
  std::byte* scales = block + size_t{key_dims(layout)} * kPageTokens / 2;
  rotate_key(layout, k, rotated);
  write_nibbles(rotated, layout, key_dims(layout), 4, reinterpret_cast<uint16_t*>(scales) + token,
                [&](uint32_t d, uint8_t byte) { k_out[size_t{d / 8} * 64 + d % 4] = byte; });
}

inline void write_int4_value(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                             const float* v) {
  float rotated[kMaxHeadDim];
  std::byte* v_block = block + layout.value_offset();
  auto* v_out = reinterpret_cast<uint8_t*>(v_block) + size_t{token / 4} * 64 + token % 4;
  std::byte* scales = v_block + size_t{value_dims(layout)} * kPageTokens / 2;
  rotate_head(v, layout.head_dim, rotated);
  write_nibbles(rotated, layout, value_dims(layout), kLanes,
                reinterpret_cast<uint16_t*>(scales) + token, [&](uint32_t d, uint8_t byte) {
                  v_out[size_t{d / 32} * kValueBlockBytes + size_t{d % 16} * 4] = byte;
                });
}

// Writes K and V as levels, each in its own type. v is null for latent K.
inline void write_quantized(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                            const float* k, const float* v) {
  if (layout.rotates_keys()) {
    write_int4_key(layout, block, token, k);
  } else if (layout.keys_by_channel) {
    // write_channels() writes K when the page is full.
  } else if (!v) {
    write_latent_int8(layout, block, token, k);
  } else {
    write_int8_key(layout, block, token, k);
  }
  if (!v) return;
  if (layout.value_type() == KvType::kInt4) {
    write_int4_value(layout, block, token, v);
  } else {
    write_int8_value(layout, block, token, v);
  }
}

inline void write_token(const KvBlockLayout& layout, std::byte* block, uint32_t token_in_page,
                        const float* k, const float* v) {
  switch (layout.type) {
    case KvType::kF32:
      return write_elements<float>(layout, block, token_in_page, k, v);
    case KvType::kBF16:
      return write_elements<uint16_t>(layout, block, token_in_page, k, v);
    case KvType::kInt8:
    case KvType::kInt8Int4:
    case KvType::kInt4:
      return write_quantized(layout, block, token_in_page, k, v);
  }
}
