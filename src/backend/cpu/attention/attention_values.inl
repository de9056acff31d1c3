// Computes sums from weights and V, for pages of floats: the second half of a split. Part of
// attention.inl.

// The V of the pages of one strip.
template <class Element>
struct StripValues {
  Range tokens;
  uint32_t split_begin;
  const Element* pages[kStripPages];
  const Element* ahead[kStripPages];
};

// Adds V of those tokens of the strip that are visible to all pairs of the chunk to the split's
// sums.
template <class Element>
inline void weigh_tokens(const Block& block, Chunk chunk, const StripValues<Element>& strip,
                         Range tokens) {
  if (tokens.empty()) return;
  ValueRun<Element> runs[kStripPages];
  uint32_t n_runs = 0;
  for (uint32_t begin = tokens.begin; begin < tokens.end; ++n_runs) {
    const uint32_t page = begin / kPageTokens;
    const uint32_t i = page - strip.tokens.begin / kPageTokens;
    const uint32_t end = lesser((page + 1) * kPageTokens, tokens.end);
    const size_t offset = v_element(begin % kPageTokens, 0);
    runs[n_runs] = {strip.pages[i] + offset, strip.ahead[i] + offset, end - begin};
    begin = end;
  }
  const float* weights =
      block.scores + size_t{chunk.begin} * kScoreStride + (tokens.begin - strip.split_begin);
  with_count<kTileRows>(chunk.size(), [&](auto m) {
    weigh_blocks<m.value>(weights, runs, n_runs, block.n_dim_blocks,
                          block.split.sums + size_t{chunk.begin} * block.padded_dim());
  });
}

// Calls weigh_tokens for the part of `tokens` that is visible to each pair. Pairs of one row have
// the same part.
template <class Element>
inline void weigh_row_by_row(const Block& block, Chunk chunk, const StripValues<Element>& strip,
                             Range tokens) {
  for (uint32_t pair = chunk.begin; pair < chunk.end;) {
    Chunk row = {pair, pair + 1};
    while (row.end < chunk.end && block.row(row.end) == block.row(pair)) ++row.end;
    weigh_tokens(block, row, strip, common(tokens, block.visible[pair]));
    pair = row.end;
  }
}

template <class Element>
inline void weigh_strip(const Block& block, const StripValues<Element>& strip) {
  const Range tokens = strip.tokens;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    const Range shared = common(tokens, block.visible_to_all(chunk));
    if (shared.empty()) {
      weigh_row_by_row(block, chunk, strip, tokens);
    } else {
      weigh_row_by_row(block, chunk, strip, {tokens.begin, shared.begin});
      weigh_tokens(block, chunk, strip, shared);
      weigh_row_by_row(block, chunk, strip, {shared.end, tokens.end});
    }
  }
}

inline void weigh_strip_widened(const Block& block, const StripValues<uint16_t>& strip) {
  const size_t page = size_t{kPageTokens} * block.padded_dim();
  StripValues<float> wide = {};
  wide.tokens = strip.tokens;
  wide.split_begin = strip.split_begin;
  for (uint32_t i = 0; i < kStripPages; ++i) {
    wide.pages[i] = widen(strip.pages[i], strip.ahead[i], page, block.spare + i * page);
    wide.ahead[i] = wide.pages[i];
  }
  weigh_strip(block, wide);
}

// Transposes sixteen vectors: lane i of vector j becomes lane j of vector i.
inline void transpose_tile(F32x16 (&v)[kLanes]) {
#pragma GCC unroll 4
  for (uint32_t round = 0; round < 4; ++round) {
    F32x16 next[kLanes];
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave_low(v[i], v[i + kLanes / 2]);
      next[2 * i + 1] = interleave_high(v[i], v[i + kLanes / 2]);
    }
#pragma GCC unroll 16
    for (uint32_t i = 0; i < kLanes; ++i) v[i] = next[i];
  }
}

// Transposes the latent part of a page's K to the layout of V.
template <class Element>
inline const float* transpose_latent(const KvBlockLayout& layout, const Element* keys, float* out) {
  const size_t tile = size_t{layout.head_dim} * kLanes;
  for (uint32_t d = 0; d < layout.latent_dim; d += kLanes) {
    for (uint32_t t = 0; t < kTilesPerPage; ++t) {
      F32x16 v[kLanes];
#pragma GCC unroll 16
      for (uint32_t i = 0; i < kLanes; ++i) {
        v[i] = load_elements(keys + t * tile + size_t{d + i} * kLanes);
      }
      transpose_tile(v);
      float* to = out + v_element(t * kLanes, d);
#pragma GCC unroll 16
      for (uint32_t i = 0; i < kLanes; ++i) store(to + i * kLanes, v[i]);
    }
  }
  return out;
}

template <class Element>
inline void weigh_strip_transposed(const Block& block, const StripValues<Element>& strip) {
  const size_t page = size_t{kPageTokens} * block.padded_dim();
  StripValues<float> rotated = {};
  rotated.tokens = strip.tokens;
  rotated.split_begin = strip.split_begin;
  for (uint32_t i = 0; i < kStripPages; ++i) {
    float* room = block.spare + i * page;
    // A strip may have only one page, which is then in both places.
    rotated.pages[i] = i > 0 && strip.pages[i] == strip.pages[0]
                           ? rotated.pages[0]
                           : transpose_latent(block.task.layout, strip.pages[i], room);
    rotated.ahead[i] = rotated.pages[i];
  }
  weigh_strip(block, rotated);
}

template <class Element>
inline void weigh_split(const Block& block, Range split) {
  const Range all = common(block.visible_to_any(), split);
  for (uint32_t begin = all.begin; begin < all.end;) {
    const uint32_t first_page = begin / kPageTokens;
    const uint32_t last_page = (all.end - 1) / kPageTokens;
    StripValues<Element> strip = {};
    strip.tokens = {begin, lesser((first_page + kStripPages) * kPageTokens, all.end)};
    strip.split_begin = split.begin;
    for (uint32_t i = 0; i < kStripPages; ++i) {
      const uint32_t page = lesser(first_page + i, last_page);
      strip.pages[i] = values_of<Element>(block.task, page);
      strip.ahead[i] = values_ahead<Element>(block, split, page);
    }
    begin = strip.tokens.end;
    if (block.task.layout.latent_dim != 0) {
      weigh_strip_transposed(block, strip);
      continue;
    }
    if constexpr (sizeof(Element) == sizeof(uint16_t)) {
      if (widens_once(block)) {
        weigh_strip_widened(block, strip);
        continue;
      }
    }
    weigh_strip(block, strip);
  }
}
