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
                                          task.layout.k_bytes());
}

// Returns the K of tile t of the sequence, or the beginning of the split's V after the last tile of
// the split.
template <class Element>
inline const Element* tile_or_values(const Block& block, Range split_tiles, uint32_t t) {
  const size_t tile = size_t{block.task.layout.head_dim} * kLanes;
  if (t < split_tiles.end) {
    return keys_of<Element>(block.task, t / kTilesPerPage) + t % kTilesPerPage * tile;
  }
  const uint32_t after = lesser(t - split_tiles.end, kTilesPerPage - 1);
  return values_of<Element>(block.task, split_tiles.begin / kTilesPerPage) + after * tile;
}

// Returns the data to prefetch while the V of a page is read: the V of the next strip, or the K of
// the next split.
template <class Element>
inline const Element* values_ahead(const Block& block, Range split, uint32_t page) {
  const uint32_t next = page + kStripPages;
  const Range seen = common(block.visible_to_any(), split);
  const Element* here = values_of<Element>(block.task, page);
  if (next * kPageTokens < seen.end) return values_of<Element>(block.task, next);
  return reinterpret_cast<const Element*>(
      block.keys_ahead(next - split.end / kPageTokens, reinterpret_cast<const std::byte*>(here)));
}

// Converts n elements from bf16 to f32. Prefetches as many of `ahead`.
inline const float* widen(const uint16_t* p, const uint16_t* ahead, size_t n, float* out) {
  for (size_t i = 0; i < n; i += kLanes) {
    store(out + i, load_bf16(p + i));
    __builtin_prefetch(ahead + i);
  }
  return out;
}

// Returns whether K and V are converted once per strip. A block with a single chunk reads them only
// once and converts them on the fly.
inline bool widens_once(const Block& block) { return block.n_chunks > 1; }

// Computes the scores of all pairs against those tiles of a strip that they attend to. `tiles` has
// kMaxTileVectors more pointers after these tiles.
template <class Element>
inline void score_strip(const Block& block, Range split, Range strip, const Element* const* tiles) {
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
                                const uint16_t* const* tiles) {
  const size_t tile = size_t{block.task.layout.head_dim} * kLanes;
  const float* wide[kStripTiles + kMaxTileVectors];
  for (uint32_t i = 0; i < kStripTiles + kMaxTileVectors; ++i) {
    wide[i] = i < strip.end - strip.begin
                  ? widen(tiles[i], tiles[i + kMaxTileVectors], tile, block.spare + i * tile)
                  : block.spare;
  }
  score_strip(block, split, strip, wide);
}

template <class Element>
inline void score_split(const Block& block, Range split) {
  const Range all = tiles_of(common(block.visible_to_any(), split));
  for (uint32_t begin = all.begin; begin < all.end; begin += kStripTiles) {
    const Range strip = {begin, lesser(begin + kStripTiles, all.end)};
    const Element* tiles[kStripTiles + kMaxTileVectors];
    for (uint32_t i = 0; i < kStripTiles + kMaxTileVectors; ++i) {
      tiles[i] = tile_or_values<Element>(block, all, begin + i);
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
inline void weigh_scores(Block& block, uint32_t pair, Range seen) {
  float* scores = block.scores + size_t{pair} * kScoreStride;
  const float cap = block.task.soft_cap;
  const F32x16 unseen = set1(-__builtin_inff());
  const uint32_t first = seen.begin / kLanes * kLanes;
  F32x16 most = unseen;
  F32x16 other = unseen;  // two chains, because max has a higher latency than the rest of a step
  for (uint32_t t = first; t < seen.end; t += kLanes) {
    F32x16 s = load(scores + t);
    if (cap != 0.0f) s = soft_capped(s, set1(cap));
    if (t < seen.begin || t + kLanes > seen.end) {
      s = select_range(greater(t, seen.begin) - t, lesser(t + kLanes, seen.end) - t, s, unseen);
    }
    if (cap != 0.0f || t < seen.begin || t + kLanes > seen.end) store(scores + t, s);
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
