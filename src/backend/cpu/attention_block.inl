// What attention.inl knows of the pairs that it works on together.

// Tokens, or tiles of 16 tokens, [begin, end) of the sequence.
struct Range {
  uint32_t begin, end;
  bool empty() const { return begin >= end; }
};
inline Range common(Range a, Range b) { return {greater(a.begin, b.begin), lesser(a.end, b.end)}; }
inline Range tiles_of(Range tokens) { return {tokens.begin / kLanes, blocks_of_16(tokens.end)}; }

// Pairs [begin, end) of a block that share register tiles.
struct Chunk {
  uint32_t begin, end;
  uint32_t size() const { return end - begin; }
};

// Up to kBlockPairs pairs, and what is known of them so far. Floats live in the task's scratch.
struct Block {
  const AttendTask& task;
  uint32_t first_pair;
  uint32_t n_pairs;
  uint32_t n_chunks;
  uint32_t n_dim_blocks;
  float* queries;     // chunk after chunk, each [head_dim][pairs of the chunk]
  float* scores;      // [pair] at kScoreStride, one split
  float* sums;        // [pair][16 · n_dim_blocks]
  float* split_sums;  // likewise, one split
  float* widened;     // K or V of one strip, where it pays to widen it once for all chunks
  Range visible[kBlockPairs] = {};
  float top[kBlockPairs] = {}, total[kBlockPairs] = {};
  float split_top[kBlockPairs] = {}, split_total[kBlockPairs] = {};

  uint32_t row(uint32_t pair) const { return (first_pair + pair) / task.group; }
  uint32_t head(uint32_t pair) const { return (first_pair + pair) % task.group; }
  Chunk chunk(uint32_t i) const { return {n_pairs * i / n_chunks, n_pairs * (i + 1) / n_chunks}; }
  // What any pair of a chunk sees: rows are in ascending order.
  Range seen_by_any(Chunk c) const { return {visible[c.begin].begin, visible[c.end - 1].end}; }
  Range seen_by_all(Chunk c) const { return {visible[c.end - 1].begin, visible[c.begin].end}; }
  uint32_t padded_dim() const { return n_dim_blocks * kLanes; }
};

inline Range visible_tokens(const AttendTask& task, uint32_t position) {
  const uint32_t end = position + 1;
  return {task.window != 0 && end > task.window ? end - task.window : 0, end};
}

inline void gather_queries(const Block& block) {
  const AttendTask& task = block.task;
  const uint32_t head_dim = task.layout.head_dim;
  for (uint32_t i = 0; i < block.n_chunks; ++i) {
    const Chunk chunk = block.chunk(i);
    float* out = block.queries + size_t{chunk.begin} * head_dim;
    for (uint32_t pair = chunk.begin; pair < chunk.end; ++pair) {
      const float* q =
          task.q + size_t{block.row(pair)} * task.q_stride + size_t{block.head(pair)} * head_dim;
      for (uint32_t d = 0; d < head_dim; ++d) {
        out[size_t{d} * chunk.size() + (pair - chunk.begin)] = q[d];
      }
    }
  }
}
