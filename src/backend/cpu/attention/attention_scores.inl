// Computes weights from queries and K, for pages of floats: the first half of a split. Part of
// attention.inl.

template <class Element>
inline const Element* keys_of(const AttendTask& task, uint32_t page) {
  return reinterpret_cast<const Element*>(task.pages[page] + task.block_offset);
}
template <class Element>
inline const Element* values_of(const AttendTask& task, uint32_t page) {
  if (task.layout.latent_dim != 0) return keys_of<Element>(task, page);
  return reinterpret_cast<const Element*>(task.pages[page] + task.block_offset +
                                          task.layout.value_offset());
}

// Returns tile t of the sequence. V of the same tokens is prefetched with it. Latent K is V too, so
// later K is prefetched there, as far as the split has any.
template <class Element>
inline FloatTile<Element> float_tile(const Block& block, Range split_tiles, uint32_t t) {
  const size_t tile = size_t{block.task.layout.head_dim} * kLanes;
  const auto keys = [&](uint32_t i) {
    return keys_of<Element>(block.task, i / kTilesPerPage) + i % kTilesPerPage * tile;
  };
  if (block.task.layout.latent_dim != 0) {
    return {keys(t), keys(lesser(t + kMaxTileVectors, split_tiles.end - 1))};
  }
  return {keys(t), values_of<Element>(block.task, t / kTilesPerPage) + t % kTilesPerPage * tile};
}

// Returns the data to prefetch while the V of a page is read: the K of the next split.
template <class Element>
inline const Element* values_ahead(const Block& block, Range split, uint32_t page) {
  const auto* here = reinterpret_cast<const std::byte*>(values_of<Element>(block.task, page));
  return reinterpret_cast<const Element*>(block.keys_ahead(page - split.begin / kPageTokens, here));
}

// Converts n elements from bf16 to f32. Prefetches as many of `ahead`.
inline const float* widen(const uint16_t* p, const uint16_t* ahead, size_t n, float* out) {
  for (size_t i = 0; i < n; i += kLanes) {
    store(out + i, load_bf16(p + i));
    __builtin_prefetch(ahead + i, 0, 2);
  }
  return out;
}

// Returns whether K and V are converted once per strip. A block with a single chunk reads them only
// once and converts them on the fly.
inline bool widens_once(const Block& block) { return block.n_chunks > 1; }

// Computes the scores of all pairs against those tiles of a strip that they attend to.
template <class Element>
inline void score_strip(const Block& block, Range split, Range strip,
                        const FloatTile<Element>* tiles) {
  const uint32_t head_dim = block.task.layout.head_dim;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    const Range seen = common(strip, tiles_of(block.visible_to_any(chunk)));
    if (seen.empty()) continue;
    float* scores =
        block.scores + size_t{chunk.begin} * kScoreStride + (seen.begin * kLanes - split.begin);
    with_count<kTileRows>(chunk.size(), [&](auto m) {
      score_tiles<m.value>(block.queries + size_t{chunk.begin} * head_dim,
                           tiles + (seen.begin - strip.begin), seen.end - seen.begin, head_dim,
                           block.task.scale, scores);
    });
  }
}

inline void score_strip_widened(const Block& block, Range split, Range strip,
                                const FloatTile<uint16_t>* tiles) {
  const size_t tile = size_t{block.task.layout.head_dim} * kLanes;
  FloatTile<float> wide[kStripTiles];
  for (uint32_t i = 0; i < strip.end - strip.begin; ++i) {
    const float* keys = widen(tiles[i].keys, tiles[i].ahead, tile, block.spare + i * tile);
    wide[i] = {keys, keys};
  }
  score_strip(block, split, strip, wide);
}

template <class Element>
inline void score_split(const Block& block, Range split) {
  const Range all = tiles_of(common(block.visible_to_any(), split));
  for (uint32_t begin = all.begin; begin < all.end; begin += kStripTiles) {
    const Range strip = {begin, lesser(begin + kStripTiles, all.end)};
    FloatTile<Element> tiles[kStripTiles];
    for (uint32_t t = strip.begin; t < strip.end; ++t) {
      tiles[t - strip.begin] = float_tile<Element>(block, all, t);
    }
    if constexpr (sizeof(Element) == sizeof(uint16_t)) {
      if (widens_once(block)) {
        score_strip_widened(block, split, strip, tiles);
        continue;
      }
    }
    score_strip(block, split, strip, tiles);
  }
}

// Converts the scores of one pair at [begin, end) to weights, and sets the split's maximum and
// total.
inline void weigh_scores(Block& block, uint32_t pair, Range seen, const uint32_t* masks) {
  float* scores = block.scores + size_t{pair} * kScoreStride;
  const float cap = block.task.soft_cap;
  const F32x16 unseen = set1(-__builtin_inff());
  const uint32_t first = seen.begin / kLanes * kLanes;
  F32x16 most = unseen;
  F32x16 other = unseen;  // two chains, because max has a higher latency than the rest of a step
  for (uint32_t t = first; t < seen.end; t += kLanes) {
    F32x16 s = load(scores + t);
    if (cap != 0.0f) s = soft_capped(s, set1(cap));
    const bool is_end = t < seen.begin || t + kLanes > seen.end;
    if (is_end) {
      s = select_range(greater(t, seen.begin) - t, lesser(t + kLanes, seen.end) - t, s, unseen);
    }
    if (masks != nullptr) s = select_bits(bits_of_tile(masks, t), s, unseen);
    if (cap != 0.0f || is_end || masks != nullptr) store(scores + t, s);
    const F32x16 newer = max(s, other);
    other = most;
    most = newer;
  }
  const float top = max_lanes(max(most, other));
  F32x16 total = zero();
  for (uint32_t t = first; t < seen.end; t += kLanes) {
    const F32x16 p = exp_up_to_88(sub(load(scores + t), set1(top)));
    store(scores + t, p);
    total = add(total, p);
  }
  block.split.top[pair] = top;
  block.split.total[pair] = sum_lanes(total);
}
