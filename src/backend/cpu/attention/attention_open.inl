// Attention to the open page of a row: the page of the row's own token, as it was before
// quantization. Part of attention.inl.
//
// If rows have open pages, a row at position p attends to positions [p / 32 · 32, p] in its open
// page, with its query in floats, and to earlier positions in task.pages. The open page is merged
// after all splits. Its V is not rotated, so the sums of splits with rotated int4 V are rotated
// back before. The open page is treated as a sequence of its own, in which the first token of the
// page has position 0.

inline bool reads_open_pages(const Block& block) { return block.task.rows[0].open != nullptr; }

// Returns whether the merged sums are sums of rotated V.
inline bool has_rotated_sums(const Block& block) {
  return block.task.layout.value_type() == KvType::kInt4 && !reads_open_pages(block);
}

inline void rotate_sums_back(const Block& block) {
  const uint32_t value_dim = block.task.layout.value_dim();
  const F32x16 back = set1(1.0f / double_rotation_factor(value_dim));  // exact
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    if (block.visible[pair].empty()) continue;
    float* sums = from_pair(block.merged, pair, block.padded_dim()).sums;
    rotate_head(sums, value_dim, block.spare);
    for (uint32_t d = 0; d < value_dim; d += kLanes) {
      const uint32_t n = lesser(kLanes, value_dim - d);
      store_first(sums + d, mul(load_first(block.spare + d, n), back), n);
    }
  }
}

// Returns the tokens that a row attends to in its open page, counted from the beginning of the
// page.
inline Range visible_in_open_page(const AttendTask& task, uint32_t position) {
  const uint32_t page_begin = position / kPageTokens * kPageTokens;
  const uint32_t begin = greater(first_visible(task, position), page_begin);
  return {begin - page_begin, position - page_begin + 1};
}

// Computes the partial results of pairs [begin, end), which have the same open page, and writes
// them to block.split.
inline void attend_open_page(const Block& block, Chunk pairs) {
  const QueryRow& first = block.task.rows[block.row(pairs.begin)];
  AttendTask task = block.task;
  task.layout = block.task.layout.open_layout();
  task.block_offset = block.task.open_block_offset;
  task.pages = &first.open;
  Block open = {.task = task,
                .first_pair = block.first_pair + pairs.begin,
                .n_pairs = pairs.size(),
                .n_chunks = (pairs.size() + kTileRows - 1) / kTileRows,
                .n_dim_blocks = block.n_dim_blocks,
                .queries = block.queries,
                .scores = block.scores,
                .spare = block.spare,
                .scales = block.scales,
                .unpacked = block.unpacked,
                .split = from_pair(block.split, pairs.begin, block.padded_dim()),
                .is_open = true};
  for (uint32_t pair = 0; pair < open.n_pairs; ++pair) {
    open.visible[pair] = visible_in_open_page(task, task.rows[open.row(pair)].position);
  }
  gather_queries(open);
  attend_float_split<uint16_t>(open, {0, kPageTokens});
}

// Merges the open pages of a block's pairs with the merged results of all their splits. Overwrites
// the queries of the block.
inline void merge_open_pages(const Block& block) {
  const auto page_of = [&](uint32_t pair) { return block.task.rows[block.row(pair)].open; };
  for (Chunk pairs = {0, 1}; pairs.begin < block.n_pairs; pairs = {pairs.end, pairs.end + 1}) {
    while (pairs.end < block.n_pairs && page_of(pairs.end) == page_of(pairs.begin)) ++pairs.end;
    attend_open_page(block, pairs);
  }
  if (block.task.layout.value_type() == KvType::kInt4) rotate_sums_back(block);
  MergeFactors factors;
  find_merge_factors(block, factors);
  for (uint32_t pair = 0; pair < block.n_pairs; ++pair) {
    if (block.visible[pair].empty()) {
      copy_first_split(block, pair);
    } else {
      merge_next_split(block, pair, factors);
    }
  }
}
