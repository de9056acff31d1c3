// The pairs that attention.inl processes together. Part of attention.inl.

// Tokens [begin, end) of the sequence, or tiles of 16 tokens.
struct Range {
  uint32_t begin, end;
  bool empty() const { return begin >= end; }
};
inline Range common(Range a, Range b) { return {greater(a.begin, b.begin), lesser(a.end, b.end)}; }
inline Range tiles_of(Range tokens) { return {tokens.begin / kLanes, blocks_of_16(tokens.end)}; }

// Returns the bits of sixteen tokens, from token t on, in masks of pages.
inline uint32_t bits_of_tile(const uint32_t* masks, uint32_t t) {
  return masks[t / kPageTokens] >> t % kPageTokens;
}

// Pairs [begin, end) of a block, which use the same register tiles.
struct Chunk {
  uint32_t begin, end;
  uint32_t size() const { return end - begin; }
};

// Partial results of pairs: [pairs · padded_dim] sums, then the maximum of each pair, then the
// total of each pair.
struct Partial {
  float* sums;
  float* top;
  float* total;
};
inline Partial partial_at(float* floats, size_t n_pairs, uint32_t padded_dim) {
  float* top = floats + n_pairs * padded_dim;
  return {floats, top, top + n_pairs};
}
// Returns the partial results from a pair on.
inline Partial from_pair(Partial p, uint32_t pair, uint32_t padded_dim) {
  return {p.sums + size_t{pair} * padded_dim, p.top + pair, p.total + pair};
}

// Maximum number of groups of dimensions of a head: see group_dims.
constexpr uint32_t kMaxGroups = 8;

// Data that is read next, on several pages. It is prefetched into the second-level cache in steps,
// while other data is processed: a core has few reads from memory in progress, so that reads in
// bursts make it wait, and those of one page follow each other too closely.
class ReadAhead {
 public:
  static constexpr uint32_t kStreams = 4;  // pages that are read at the same time

  ReadAhead() = default;
  // Reads n_bytes of each page in about n_steps steps. Without pages, steps read `idle`.
  ReadAhead(const KeysAhead& ahead, size_t n_bytes, size_t n_steps, const std::byte* idle)
      : ahead_(ahead), n_bytes_(n_bytes), streams_{idle, idle, idle, idle} {
    const size_t stride = ahead.n_pages * n_bytes / (n_steps + 1) / 8 * 8 + 8;
    stride_ = stride < 64 ? stride : 64;
    next_pages();
  }

  // Consecutive steps; i counts from 0.
  struct Steps {
    const std::byte* streams[kStreams];
    size_t at, stride;
    [[gnu::always_inline]] void step(uint32_t i) {
      __builtin_prefetch(streams[i % kStreams] + at, 0, 2);
      if (i % kStreams == kStreams - 1) at += stride;
    }
  };
  // Returns the next n steps.
  [[gnu::always_inline]] Steps take(uint32_t n) {
    const Steps steps = {{streams_[0], streams_[1], streams_[2], streams_[3]}, at_, stride_};
    at_ += n / kStreams * stride_;
    if (__builtin_expect(at_ >= n_bytes_, 0)) next_pages();
    return steps;
  }

 private:
  // After the last page, the steps stay where they are.
  void next_pages() {
    at_ = 0;
    if (ahead_.n_pages == 0) {
      stride_ = 0;
      return;
    }
    const uint32_t n = lesser(kStreams, ahead_.n_pages);
    for (uint32_t i = 0; i < kStreams; ++i) {
      const std::byte* page = ahead_.pages[i < n ? i : 0];
      if (page != nullptr) streams_[i] = page + ahead_.block_offset;
    }
    ahead_.pages += n;
    ahead_.n_pages -= n;
  }

  KeysAhead ahead_ = {};
  size_t n_bytes_ = 0;
  const std::byte* streams_[kStreams] = {};
  size_t at_ = 0, stride_ = 0;
};

// Up to kBlockPairs pairs and their results so far. The floats are in the task's scratch memory, or
// in the caller's buffer for partial results.
struct Block {
  const AttendTask& task;
  uint32_t first_pair;
  uint32_t n_pairs;
  uint32_t n_chunks;
  uint32_t n_dim_blocks;  // blocks of sixteen dimensions of V
  // By chunk, each [head_dim][pairs of the chunk]; for quantized pages see quantize_queries()
  float* queries;
  float* scores;  // of one split; those of a pair begin at pair · kScoreStride
  // Floats of one strip of bf16 K or V, or the levels of weights of one chunk for quantized pages.
  float* spare;
  float* scales;    // of one split of quantized pages: see LevelSplit
  float* unpacked;  // levels of one split of int4
  KeysAhead ahead = {};
  Partial merged = {};
  Partial split = {};
  bool is_open = false;  // reads open pages
  Range visible[kBlockPairs] = {};
  float query_scale[kBlockPairs] = {};              // for quantized pages
  float group_scale[kMaxGroups][kBlockPairs] = {};  // additional scale of a group of dimensions
  // −128 · the sum of the query's levels in a group of dimensions
  int32_t minus_128_levels[kMaxGroups][kBlockPairs] = {};

  uint32_t row(uint32_t pair) const { return (first_pair + pair) / task.group; }
  uint32_t head(uint32_t pair) const { return (first_pair + pair) % task.group; }
  Chunk chunk(uint32_t i) const { return {n_pairs * i / n_chunks, n_pairs * (i + 1) / n_chunks}; }
  uint32_t largest_chunk() const { return (n_pairs + n_chunks - 1) / n_chunks; }
  Range visible_to_any(Chunk c) const {
    Range any = visible[c.begin];
    for (uint32_t pair = c.begin + 1; pair < c.end; ++pair) {
      any = {lesser(any.begin, visible[pair].begin), greater(any.end, visible[pair].end)};
    }
    return any;
  }
  Range visible_to_all(Chunk c) const {
    Range all = visible[c.begin];
    for (uint32_t pair = c.begin + 1; pair < c.end; ++pair) all = common(all, visible[pair]);
    return all;
  }
  Range visible_to_any() const { return visible_to_any(Chunk{0, n_pairs}); }
  // Returns the masks of a pair's pages, from that of the split's first page on; null if the pair
  // attends to all tokens of its range.
  const uint32_t* masks(uint32_t pair, Range split) const {
    const QueryRow& of = task.rows[row(pair)];
    const uint32_t page = (is_open ? of.position : split.begin) / kPageTokens;
    return of.masks != nullptr ? of.masks + page : nullptr;
  }
  uint32_t padded_dim() const { return n_dim_blocks * kLanes; }
  uint32_t column(uint32_t pair) const {
    return task.first_column + head(pair) * task.layout.head_dim;
  }
  const float* query(uint32_t pair) const { return task.rows[row(pair)].q + column(pair); }
  float* out(uint32_t pair) const {
    return task.rows[row(pair)].out + task.first_out_column + head(pair) * task.layout.value_dim();
  }
  // Returns the K of that page of the next split if it is known, else `otherwise`.
  const std::byte* keys_ahead(uint32_t page, const std::byte* otherwise) const {
    const bool known = page < ahead.n_pages && ahead.pages[page] != nullptr;
    return known ? ahead.pages[page] + ahead.block_offset : otherwise;
  }
};

// Returns the first token that a row attends to.
inline uint32_t first_visible(const AttendTask& task, uint32_t position) {
  return task.window != 0 && position + 1 > task.window ? position + 1 - task.window : 0;
}

// Returns the tokens of task.pages that a row attends to. An empty range is such that it does not
// extend the union with the ranges of other rows.
inline Range visible_tokens(const AttendTask& task, const QueryRow& row) {
  const Range seen = {first_visible(task, row.position), row.sealed_end()};
  return seen.empty() ? Range{UINT32_MAX, 0} : seen;
}

// Copies the queries to block.queries, transposed for each chunk.
inline void gather_queries(const Block& block) {
  const uint32_t head_dim = block.task.layout.head_dim;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    float* out = block.queries + size_t{chunk.begin} * head_dim;
    for (uint32_t pair = chunk.begin; pair < chunk.end; ++pair) {
      const float* q = block.query(pair);
      for (uint32_t d = 0; d < head_dim; ++d) {
        out[size_t{d} * chunk.size() + (pair - chunk.begin)] = q[d];
      }
    }
  }
}
