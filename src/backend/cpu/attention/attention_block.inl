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

// n_bytes of memory at the same place of each of several pages.
struct PageRuns {
  const std::byte* const* pages = nullptr;
  uint32_t n_pages = 0;
  size_t offset = 0;  // in a page
  size_t n_bytes = 0;
};

// kByPages: four pages at the same time, which is faster for short runs. kAscending: in the order
// of addresses, which is faster for runs of several KiB. Each line is prefetched again a few lines
// later, because some prefetches have no effect, probably those that find too many in progress.
enum class ReadOrder { kByPages, kAscending };

// Memory that is read next. It is prefetched into the second-level cache in steps, while other data
// is processed: a core has few reads from memory in progress, so that reads in bursts make it wait.
template <ReadOrder kOrder>
class ReadAhead {
 public:
  // Reads `first`, then `second`, in about n_steps steps, but at most a line in each. Further steps
  // read `idle`.
  ReadAhead(const PageRuns& first, const PageRuns& second, size_t n_steps, const std::byte* idle)
      : runs_(first), later_(second), streams_{idle, idle, idle, idle} {
    const size_t n_bytes = first.n_pages * first.n_bytes + second.n_pages * second.n_bytes;
    const size_t stride = n_bytes / (n_steps + 1) / 8 * 8 + 8;
    stride_ = stride < 64 ? stride : 64;
    next_runs();
  }

  // Consecutive steps; i counts from 0.
  struct Steps {
    const std::byte* streams[4];
    size_t at, round;
    [[gnu::always_inline]] void step(uint32_t i) {
      __builtin_prefetch(streams[i % kStreams] + at, 0, 2);
      if (i % kStreams == kStreams - 1) at += round;
    }
  };
  // Returns the next n steps.
  [[gnu::always_inline]] Steps take(uint32_t n) {
    const Steps steps = {{streams_[0], streams_[1], streams_[2], streams_[3]}, at_, round_};
    if constexpr (kOrder == ReadOrder::kAscending) read_again(n);
    at_ += n / kStreams * round_;
    if (__builtin_expect(at_ >= runs_.n_bytes, 0)) next_runs();
    return steps;
  }
  // Returns whether there are steps at weight t of a row: at sixteen of 32, if lines are prefetched
  // twice.
  bool reads_at_weight(uint32_t t) const {
    return kOrder == ReadOrder::kByPages || t % (2 * kLanes) == 0;
  }
  // Reads what the steps have not reached.
  void finish() {
    while (round_ != 0) {
      for (; at_ < runs_.n_bytes; at_ += round_) {
        for (const std::byte* stream : streams_) __builtin_prefetch(stream + at_, 0, 2);
      }
      next_runs();
    }
  }

 private:
  static constexpr uint32_t kStreams = 4;
  static constexpr size_t kDistance = 512;  // bytes between the two prefetches of a line

  [[gnu::always_inline]] void read_again(uint32_t n) const {
    const std::byte* from = streams_[0] + (at_ < kDistance ? 0 : at_ - kDistance);
    for (uint32_t i = 0; i < n; ++i) __builtin_prefetch(from + i * stride_, 0, 2);
  }

  // After the last page, the steps stay where they are.
  void next_runs() {
    at_ = 0;
    while (runs_.n_pages > 0 || later_.n_pages > 0) {
      if (runs_.n_pages == 0) {
        runs_ = later_;
        later_ = {};
      }
      constexpr bool kIsAscending = kOrder == ReadOrder::kAscending;
      const uint32_t n = kIsAscending ? 1 : lesser(kStreams, runs_.n_pages);
      bool any = false;
      for (uint32_t i = 0; i < kStreams; ++i) {
        const std::byte* page = runs_.pages[i < n ? i : 0];
        if (page == nullptr) continue;
        any = true;
        streams_[i] = page + runs_.offset + (kIsAscending ? i * stride_ : 0);
      }
      runs_.pages += n;
      runs_.n_pages -= n;
      round_ = kIsAscending ? kStreams * stride_ : stride_;
      if (any) return;
    }
    stride_ = round_ = 0;
  }

  PageRuns runs_, later_;
  const std::byte* streams_[kStreams];
  size_t at_ = 0, stride_ = 0;
  size_t round_ = 0;  // bytes after which a stream continues; 0: all is read
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
  // Returns the scores of a chunk. Chunks of several KV heads have their scores at the same time.
  float* scores_of(Chunk c) const {
    return task.n_kv_heads > 1 ? scores + size_t{c.begin} * kScoreStride : scores;
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
