// K and V of one token into their page. Part of attention.inl.

// Elements of one head's K in f32 or bf16: [2][head_dim][16 tokens].
inline size_t k_element(uint32_t head_dim, uint32_t token, uint32_t d) {
  return (size_t{token / kLanes} * head_dim + d) * kLanes + token % kLanes;
}

inline void store_elements(float* p, F32x16 v) { store(p, v); }
inline void store_elements(uint16_t* p, F32x16 v) { store_bf16(p, v); }

template <class Element>
inline void write_elements(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                           const float* k, const float* v) {
  auto* k_out = reinterpret_cast<Element*>(block);
  auto* v_out = reinterpret_cast<Element*>(block + layout.k_bytes());
  const uint32_t head_dim = layout.head_dim;
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    const uint32_t n = lesser(kLanes, head_dim - d);
    Element row[kLanes];
    store_elements(row, load_first(k + d, n));
    for (uint32_t i = 0; i < n; ++i) k_out[k_element(head_dim, token, d + i)] = row[i];
    store_elements(v_out + v_element(token, d), load_first(v + d, n));
  }
}

// One head's levels in steps of sixteen d: put(d, levels), zeros behind the last. Its scale.
template <class Put>
inline float write_levels(const float* x, uint32_t head_dim, Put put) {
  const Quantum quantum = quantum_of(x, head_dim);
  for (uint32_t d = 0; d < head_dim; d += kLanes) {
    int8_t levels[kLanes];
    store_i8(levels, levels_of(load_first(x + d, lesser(kLanes, head_dim - d)), quantum));
    put(d, levels);
  }
  return quantum.scale;
}

inline void write_int8(const KvBlockLayout& layout, std::byte* block, uint32_t token,
                       const float* k, const float* v) {
  const uint32_t head_dim = layout.head_dim;
  auto* k_out = reinterpret_cast<uint8_t*>(block) +
                size_t{token / kLanes} * key_tile_bytes(head_dim) + token % kLanes * 4;
  const float k_scale = write_levels(k, head_dim, [&](uint32_t d, const int8_t* levels) {
    for (uint32_t i = 0; i < kLanes && d + i < round_up_4(head_dim); ++i) {
      k_out[size_t{(d + i) / 4} * 64 + i % 4] = static_cast<uint8_t>(levels[i] + 128);
    }
  });
  std::byte* v_block = block + layout.k_bytes();
  auto* v_out = reinterpret_cast<int8_t*>(v_block) + size_t{token / 4} * 64 + token % 4;
  const float v_scale = write_levels(v, head_dim, [&](uint32_t d, const int8_t* levels) {
    for (uint32_t i = 0; i < kLanes; ++i) {
      v_out[size_t{d / kLanes} * kValueBlockBytes + i * 4] = levels[i];
    }
  });
  const size_t scale_at = (kPageTokens - token) * sizeof(float);  // from the end
  __builtin_memcpy(v_block - scale_at, &k_scale, sizeof(float));
  __builtin_memcpy(v_block + layout.v_bytes() - scale_at, &v_scale, sizeof(float));
}

inline void write_token(const KvBlockLayout& layout, std::byte* block, uint32_t token_in_page,
                        const float* k, const float* v) {
  switch (layout.type) {
    case KvType::kF32:
      return write_elements<float>(layout, block, token_in_page, k, v);
    case KvType::kBF16:
      return write_elements<uint16_t>(layout, block, token_in_page, k, v);
    case KvType::kInt8:
      return write_int8(layout, block, token_in_page, k, v);
  }
}
