// Kernels of indexer_kernels.h. Included inside the namespace of an instruction set, after its
// vector functions.

namespace {

// Heads whose products with a page are computed together: with the two vectors of a page, eight
// chains.
constexpr uint32_t kHeadsAtOnce = 4;
static_assert(kPageTokens == 2 * kLanes);
// Dimensions up to which the keys of pages with few keys are copied to one page.
constexpr uint32_t kMostJoinedDims = 256;

inline F32x16 load_keys(const float* p) { return load(p); }
inline F32x16 load_keys(const uint16_t* p) { return load_bf16(p); }

inline F32x16 load_some_keys(const float* p, uint32_t n) { return load_first(p, n); }
inline F32x16 load_some_keys(const uint16_t* p, uint32_t n) {
  uint16_t keys[kLanes] = {};
  for (uint32_t i = 0; i < n; ++i) keys[i] = p[i];
  return load_bf16(keys);
}

inline void store_keys(float* p, F32x16 v) { store(p, v); }
inline void store_keys(uint16_t* p, F32x16 v) { store_bf16(p, v); }

// Scores of the tokens of a page.
struct PageScores {
  F32x16 low, high;
};

// Computes q · k of n heads for the tokens of a page. q: [n, dim]
template <uint32_t n, class Element>
inline void multiply_page(const float* q, uint32_t dim, const Element* keys, F32x16 (&low)[n],
                          F32x16 (&high)[n]) {
  const Element* high_keys = keys + size_t{dim} * kLanes;
  for (uint32_t h = 0; h < n; ++h) low[h] = high[h] = zero();
  for (uint32_t d = 0; d < dim; ++d) {
    const F32x16 k = load_keys(keys + size_t{d} * kLanes);
    const F32x16 high_k = load_keys(high_keys + size_t{d} * kLanes);
    for (uint32_t h = 0; h < n; ++h) {
      const F32x16 x = set1(q[size_t{h} * dim + d]);
      low[h] = fma(x, k, low[h]);
      high[h] = fma(x, high_k, high[h]);
    }
  }
}

// Adds n heads, starting at `head`.
template <uint32_t n, class Element>
inline PageScores with_heads(const ScoreTask& t, const Element* keys, uint32_t head,
                             PageScores scores) {
  F32x16 low[n], high[n];
  multiply_page(t.q + size_t{head} * t.dim, t.dim, keys, low, high);
  for (uint32_t h = 0; h < n; ++h) {
    const F32x16 weight = set1(t.weights[head + h]);
    scores.low = fma(weight, max(low[h], zero()), scores.low);
    scores.high = fma(weight, max(high[h], zero()), scores.high);
  }
  return scores;
}

template <class Element>
inline PageScores score_page(const ScoreTask& t, const Element* keys) {
  PageScores scores = {zero(), zero()};
  uint32_t head = 0;
  for (; head + kHeadsAtOnce <= t.n_heads; head += kHeadsAtOnce) {
    scores = with_heads<kHeadsAtOnce>(t, keys, head, scores);
  }
  for (; head < t.n_heads; ++head) scores = with_heads<1>(t, keys, head, scores);
  return scores;
}

template <class Element>
inline void score_pages(const ScoreTask& t) {
  for (uint32_t page = 0; page < t.n_pages; ++page) {
    const PageScores scores =
        score_page(t, reinterpret_cast<const Element*>(t.pages[page] + t.offset));
    store(t.scores + size_t{page} * kPageTokens, scores.low);
    store(t.scores + size_t{page} * kPageTokens + kLanes, scores.high);
  }
}

// Adds n heads, starting at `head`, to the scores of a page with few keys, [dim][page_keys].
template <uint32_t n, class Element>
inline F32x16 with_heads_of_few(const ScoreTask& t, const Element* keys, uint32_t head,
                                F32x16 scores) {
  const float* q = t.q + size_t{head} * t.dim;
  F32x16 sums[n];
  for (uint32_t h = 0; h < n; ++h) sums[h] = zero();
  for (uint32_t d = 0; d < t.dim; ++d) {
    const F32x16 k = load_some_keys(keys + size_t{d} * t.page_keys, t.page_keys);
    for (uint32_t h = 0; h < n; ++h) sums[h] = fma(set1(q[size_t{h} * t.dim + d]), k, sums[h]);
  }
  for (uint32_t h = 0; h < n; ++h) {
    scores = fma(set1(t.weights[head + h]), max(sums[h], zero()), scores);
  }
  return scores;
}

// Scores a page by n heads, starting at `head`.
template <uint32_t n, class Element>
inline void score_page(const HeadScoreTask& t, const Element* keys, uint32_t page, uint32_t head) {
  const F32x16 left_out = set1(-__builtin_inff());
  const uint32_t first = page * kPageTokens;
  const uint32_t n_seen = t.n_tokens > first ? t.n_tokens - first : 0;
  F32x16 low[n], high[n];
  multiply_page(t.q + size_t{head} * t.dim, t.dim, keys, low, high);
  for (uint32_t h = 0; h < n; ++h) {
    if (n_seen < kPageTokens) {
      low[h] = select_range(0, n_seen < kLanes ? n_seen : kLanes, low[h], left_out);
      high[h] = select_range(0, n_seen > kLanes ? n_seen - kLanes : 0, high[h], left_out);
    }
    float* scores = t.scores + (head + h) * t.stride;
    if (t.pools) {
      scores[page] = max_lanes(max(low[h], high[h]));
    } else {
      store(scores + first, low[h]);
      store(scores + first + kLanes, high[h]);
    }
  }
}

template <class Element>
inline void score_pages(const HeadScoreTask& t) {
  for (uint32_t page = 0; page < t.n_pages; ++page) {
    const auto* keys = reinterpret_cast<const Element*>(t.pages[page] + t.offset);
    uint32_t head = 0;
    for (; head + kHeadsAtOnce <= t.n_heads; head += kHeadsAtOnce) {
      score_page<kHeadsAtOnce>(t, keys, page, head);
    }
    for (; head < t.n_heads; ++head) score_page<1>(t, keys, page, head);
  }
}

inline void score_heads(const HeadScoreTask& task) {
  if (task.type == KvType::kF32) return score_pages<float>(task);
  score_pages<uint16_t>(task);
}

template <class Element>
inline void score_few_keys(const ScoreTask& t) {
  for (uint32_t page = 0; page < t.n_pages; ++page) {
    const auto* keys = reinterpret_cast<const Element*>(t.pages[page] + t.offset);
    F32x16 scores = zero();
    uint32_t head = 0;
    for (; head + kHeadsAtOnce <= t.n_heads; head += kHeadsAtOnce) {
      scores = with_heads_of_few<kHeadsAtOnce>(t, keys, head, scores);
    }
    for (; head < t.n_heads; ++head) scores = with_heads_of_few<1>(t, keys, head, scores);
    store_first(t.scores + size_t{page} * t.page_keys, scores, t.page_keys);
  }
}

// Scores pages with kKeys keys together, as many as have the keys of a page of kPageTokens: their
// keys are copied to its layout. A lane of a page with few keys would do a part of its work only.
// The bits are those of score_few_keys(), because each key has a lane of its own in both.
template <uint32_t kKeys, class Element>
inline void score_joined_pages(const ScoreTask& t) {
  constexpr uint32_t kPages = kPageTokens / kKeys;
  alignas(64) Element keys[kPageTokens * kMostJoinedDims];
  for (uint32_t first = 0; first < t.n_pages; first += kPages) {
    const uint32_t n_pages = t.n_pages - first < kPages ? t.n_pages - first : kPages;
    for (uint32_t page = 0; page < n_pages; ++page) {
      const auto* from = reinterpret_cast<const Element*>(t.pages[first + page] + t.offset);
      const uint32_t lane = page * kKeys;
      Element* to = keys + size_t{lane / kLanes} * t.dim * kLanes + lane % kLanes;
      for (uint32_t d = 0; d < t.dim; ++d) {
        __builtin_memcpy(to + size_t{d} * kLanes, from + size_t{d} * kKeys,
                         kKeys * sizeof(Element));
      }
    }
    const PageScores scores = score_page(t, keys);
    float* out = t.scores + size_t{first} * kKeys;
    const uint32_t n = n_pages * kKeys;
    store_first(out, scores.low, n < kLanes ? n : kLanes);
    if (n > kLanes) store_first(out + kLanes, scores.high, n - kLanes);
  }
}

template <class Element>
inline void score_pages_of_few_keys(const ScoreTask& t) {
  if (t.dim > kMostJoinedDims) return score_few_keys<Element>(t);
  switch (t.page_keys) {
    case 16:
      return score_joined_pages<16, Element>(t);
    case 8:
      return score_joined_pages<8, Element>(t);
    case 4:
      return score_joined_pages<4, Element>(t);
    default:
      return score_few_keys<Element>(t);
  }
}

inline void score(const ScoreTask& task) {
  const bool is_f32 = task.type == KvType::kF32;
  if (task.page_keys == kPageTokens) {
    return is_f32 ? score_pages<float>(task) : score_pages<uint16_t>(task);
  }
  is_f32 ? score_pages_of_few_keys<float>(task) : score_pages_of_few_keys<uint16_t>(task);
}

template <class Element>
inline void write_elements(uint32_t dim, std::byte* keys, uint32_t page_keys, uint32_t key_index,
                           const float* key) {
  const uint32_t n_lanes = page_keys < kLanes ? page_keys : kLanes;
  auto* out = reinterpret_cast<Element*>(keys) + size_t{key_index / n_lanes} * dim * n_lanes;
  for (uint32_t d = 0; d < dim; d += kLanes) {
    const uint32_t n = dim - d < kLanes ? dim - d : kLanes;
    Element row[kLanes];
    store_keys(row, load_first(key + d, n));
    for (uint32_t i = 0; i < n; ++i) out[size_t{d + i} * n_lanes + key_index % n_lanes] = row[i];
  }
}

inline void write_key(KvType type, uint32_t dim, std::byte* keys, uint32_t page_keys, uint32_t i,
                      const float* key) {
  if (type == KvType::kF32) return write_elements<float>(dim, keys, page_keys, i, key);
  write_elements<uint16_t>(dim, keys, page_keys, i, key);
}

}  // namespace

const IndexerKernels kIndexerKernels = {
    .write_key = write_key,
    .score = score,
    .score_heads = score_heads,
};
