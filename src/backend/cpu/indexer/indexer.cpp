#include "backend/cpu/indexer/indexer.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "backend/cpu/scratch.h"
#include "base/check.h"
#include "tensor/page_count.h"

namespace kvik::cpu {
namespace {

// Pages per item of work.
constexpr uint32_t kItemPages = 16;
// Scores of a wave of rows, unless those of a single row are more. They bound the scratch memory.
constexpr size_t kWaveScores = size_t{1} << 20;

// Returns the number of scores of a row, of which n_keys are used: those of whole pages, of at most
// kPageTokens keys.
size_t padded(size_t n_keys) { return pages_for(n_keys) * kPageTokens; }

size_t wave_scores(size_t stride) { return std::max(kWaveScores, stride); }

// Numbers that a selection among n keys needs: scores of a row, and integers of a thread.
struct Room {
  size_t stride, n_keys;
};
Room room_for(const IndexShape& shape, size_t n_keys) {
  const size_t n_padded = padded(n_keys);
  if (!shape.is_per_head()) return {n_padded, n_padded};
  const bool pools = shape.block_tokens % kPageTokens == 0;
  return {shape.n_heads * (pools ? n_padded / kPageTokens : n_padded),
          2 * (n_keys / shape.block_tokens + 1)};
}

// Returns the most that the selections within some limits need.
Room room_for(const WorkLimits& limits) {
  Room most{0, 0};
  for (const HeadsUse& use : limits.heads) {
    if (use.n_top == 0) continue;
    const bool is_per_head = use.key_tokens == 1 && (use.block_tokens > 1 || use.n_lists > 1);
    const Room room = room_for(
        IndexShape{.n_heads = use.n_lists, .block_tokens = is_per_head ? use.block_tokens : 0},
        limits.n_ctx / use.key_tokens);
    most = {std::max(most.stride, room.stride), std::max(most.n_keys, room.n_keys)};
  }
  return most;
}

// Returns an integer that orders scores as their values do, and both zeros alike.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0.0f ? 0.0f : score);
  constexpr uint32_t kSign = 0x80000000;
  return bits & kSign ? ~bits : bits | kSign;
}

// Writes the positions of the n_top highest of n keys, ascending, plus `first`. Among equal keys
// the lower positions are selected. key_at(i) returns a key; `ordered` holds all of them in any
// order and is changed.
template <class KeyAt>
void list_highest(uint32_t n, KeyAt key_at, uint32_t* ordered, uint32_t n_top, uint32_t first,
                  uint32_t* out) {
  std::nth_element(ordered, ordered + n_top - 1, ordered + n, std::greater());
  const uint32_t last = ordered[n_top - 1];
  auto n_equal = static_cast<uint32_t>(
      n_top - std::count_if(ordered, ordered + n_top, [&](uint32_t key) { return key > last; }));
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t key = key_at(i);
    if (key < last || (key == last && n_equal == 0)) continue;
    if (key == last) --n_equal;
    *out++ = first + i;
  }
}

}  // namespace

uint64_t Indexer::scratch_bytes(const WorkLimits& limits) const {
  const Room room = room_for(limits);
  if (room.stride == 0) return 0;
  return (wave_scores(room.stride) + pool_.n_threads() * room.n_keys) * sizeof(float);
}

void Indexer::reserve(const WorkLimits& limits) {
  const Room room = room_for(limits);
  if (room.stride == 0) return;
  grow(scores_, wave_scores(room.stride) * sizeof(float), memory_);
  grow(keys_, pool_.n_threads() * room.n_keys * sizeof(uint32_t), memory_);
  rows_.reserve(limits.n_rows);
}

void Indexer::write(const IndexTarget& to, Rows keys) {
  CHECK(keys.n_cols == to.dim);
  for (const KvRun& run : to.runs) {
    CHECK(run.first_row + run.n_rows <= keys.n_rows);
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      const uint32_t token = run.first_position + i;
      if ((token + 1) % to.key_tokens != 0) continue;
      kernels_.write_key(to.type, to.dim, run.pages[token / kPageTokens] + to.offset,
                         to.page_keys(), token % kPageTokens / to.key_tokens,
                         keys.data + size_t{run.first_row + i} * keys.stride);
    }
  }
}

void Indexer::list_rows(const Call& call) {
  rows_.clear();
  for (const KvRun& run : call.keys.runs) {
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      const uint32_t position = run.first_position + i;
      const uint32_t end = (position + 1) / call.keys.key_tokens;
      const uint32_t n = call.shape.window != 0 ? n_visible(position, call.shape.window) : end;
      if (n <= call.shape.n_budget()) continue;
      rows_.push_back({&run, run.first_row + i, position, end - n, end});
    }
  }
}

void Indexer::select(const IndexTarget& keys, const IndexShape& shape, Rows q, Rows weights,
                     uint32_t* lists) {
  CHECK(shape.n_top > 0 && q.n_cols == shape.n_heads * keys.dim);
  CHECK(shape.is_per_head() ? shape.window == 0 && shape.n_local <= shape.n_top
                            : weights.n_cols == shape.n_heads && weights.n_rows == q.n_rows);
  CHECK(kPageTokens % keys.key_tokens == 0);
  CHECK(keys.key_tokens == 1 || (shape.window == 0 && !shape.is_per_head()));
  Call call{keys, shape, q, weights, lists};
  list_rows(call);
  if (rows_.empty()) return;
  for (const Row& row : rows_) {
    const Room room = room_for(shape, row.end);
    call.n_pages = std::max(call.n_pages, (row.end - 1) / keys.page_keys() + 1);
    call.stride = std::max(call.stride, room.stride);
    call.n_keys = std::max(call.n_keys, room.n_keys);
  }
  grow(scores_, wave_scores(call.stride) * sizeof(float), memory_);
  grow(keys_, pool_.n_threads() * call.n_keys * sizeof(uint32_t), memory_);
  const uint32_t n_lists = shape.n_lists();
  const size_t n_at_once = std::max<size_t>(1, kWaveScores / call.stride);
  for (size_t first = 0; first < rows_.size(); first += n_at_once) {
    const auto wave = std::span<const Row>(rows_).subspan(first);
    const auto rows = wave.first(std::min(n_at_once, wave.size()));
    score_rows(call, rows);
    pool_.run(rows.size() * n_lists, [&](size_t item, uint32_t thread) {
      const size_t row = item / n_lists;
      const auto head = static_cast<uint32_t>(item % n_lists);
      auto* room = reinterpret_cast<uint32_t*>(keys_.floats()) + thread * call.n_keys;
      const float* scores = scores_.floats() + row * call.stride + head * call.head_stride();
      if (shape.is_per_head()) return select_blocks(call, rows[row], head, scores, room);
      select_top(call, rows[row], scores, room);
    });
  }
}

void Indexer::score_rows(const Call& call, std::span<const Row> rows) {
  const size_t n_items = (call.n_pages + kItemPages - 1) / kItemPages;
  pool_.run(rows.size() * n_items, [&](size_t item, uint32_t) {
    const Row& row = rows[item / n_items];
    const auto first = static_cast<uint32_t>(item % n_items) * kItemPages;
    const uint32_t begin = std::max(first, row.first / call.keys.page_keys());
    const uint32_t end = std::min(first + kItemPages, (row.end - 1) / call.keys.page_keys() + 1);
    if (begin >= end) return;
    score_pages(call, row, begin, end, scores_.floats() + item / n_items * call.stride);
  });
}

// Scores pages [begin, end) of a row, of which `scores` are all scores.
void Indexer::score_pages(const Call& call, const Row& row, uint32_t begin, uint32_t end,
                          float* scores) const {
  const float* q = call.q.data + size_t{row.row} * call.q.stride;
  float* at = scores + size_t{begin} * call.page_scores();
  const std::byte* const* pages = row.run->pages.data() + begin;
  if (call.shape.is_per_head()) {
    return kernels_.score_heads({.type = call.keys.type,
                                 .dim = call.keys.dim,
                                 .n_heads = call.shape.n_heads,
                                 .q = q,
                                 .pages = pages,
                                 .n_pages = end - begin,
                                 .offset = call.keys.offset,
                                 .n_tokens = row.end - begin * kPageTokens,
                                 .pools = call.pools(),
                                 .scores = at,
                                 .stride = call.head_stride()});
  }
  kernels_.score({.type = call.keys.type,
                  .dim = call.keys.dim,
                  .n_heads = call.shape.n_heads,
                  .q = q,
                  .weights = call.weights.data + size_t{row.row} * call.weights.stride,
                  .pages = pages,
                  .n_pages = end - begin,
                  .offset = call.keys.offset,
                  .page_keys = call.keys.page_keys(),
                  .scores = at});
}

void Indexer::select_top(const Call& call, const Row& row, const float* scores, uint32_t* keys) {
  const uint32_t n = row.end - row.first;
  const auto key_at = [&](uint32_t i) { return order_of(scores[row.first + i]); };
  for (uint32_t i = 0; i < n; ++i) keys[i] = key_at(i);
  uint32_t* const list = call.list(row, 0);
  list_highest(n, key_at, keys, call.shape.n_top, row.first, list);
  if (call.keys.key_tokens == 1) return;
  const bool is_whole = (row.position + 1) % call.keys.key_tokens == 0;
  list[call.shape.n_top] = is_whole ? SelectedTokens::kNoBlock : row.end;
}

// Selects the blocks of one head, of which `scores` are the scores of all pages or tokens.
void Indexer::select_blocks(const Call& call, const Row& row, uint32_t head, const float* scores,
                            uint32_t* keys) {
  constexpr uint32_t kAlways = UINT32_MAX;  // above the keys of all scores
  const IndexShape& shape = call.shape;
  const uint32_t n = (row.end - 1) / shape.block_tokens + 1;
  const uint32_t tokens_per_score = kPageTokens / call.page_scores();
  const uint32_t n_scores = (row.end - 1) / tokens_per_score + 1;
  const uint32_t block_scores = shape.block_tokens / tokens_per_score;
  for (uint32_t block = 0; block < n; ++block) {
    const float* first = scores + size_t{block} * block_scores;
    const float* last = scores + std::min<size_t>(n_scores, size_t{block + 1} * block_scores);
    keys[block] = 0;
    for (const float* score = first; score < last; ++score) {
      keys[block] = std::max(keys[block], order_of(*score));
    }
  }
  std::fill(keys + (n - std::min(n, shape.n_local)), keys + n, kAlways);
  std::copy(keys, keys + n, keys + n);
  list_highest(
      n, [&](uint32_t i) { return keys[i]; }, keys + n, shape.n_top, 0, call.list(row, head));
}

}  // namespace kvik::cpu
