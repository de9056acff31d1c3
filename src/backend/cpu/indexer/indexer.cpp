#include "backend/cpu/indexer/indexer.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "backend/cpu/scratch.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

// Pages per item of work.
constexpr uint32_t kItemPages = 16;
// Scores of a wave of rows, unless those of a single row are more. They bound the scratch memory.
constexpr size_t kWaveScores = size_t{1} << 20;

// Returns the number of scores of a row, of which n_keys are used: those of whole pages, of at most
// kPageTokens keys.
size_t padded(size_t n_keys) { return (n_keys + kPageTokens - 1) / kPageTokens * kPageTokens; }

// Returns the most scores of a row; 0 if there are no indexers.
size_t row_scores(const WorkLimits& limits) {
  size_t most = 0;
  for (const HeadsUse& use : limits.heads) {
    if (use.n_top > 0) most = std::max(most, padded(limits.n_ctx / use.block_tokens));
  }
  return most;
}

size_t wave_scores(size_t stride) { return std::max(kWaveScores, stride); }

// Returns an integer that orders scores as their values do, and both zeros alike.
uint32_t order_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0.0f ? 0.0f : score);
  constexpr uint32_t kSign = 0x80000000;
  return bits & kSign ? ~bits : bits | kSign;
}

}  // namespace

uint64_t Indexer::scratch_bytes(const WorkLimits& limits) const {
  const size_t stride = row_scores(limits);
  if (stride == 0) return 0;
  return (wave_scores(stride) + pool_.n_threads() * stride) * sizeof(float);
}

void Indexer::reserve(const WorkLimits& limits) {
  const size_t stride = row_scores(limits);
  if (stride == 0) return;
  grow(scores_, wave_scores(stride) * sizeof(float), memory_);
  grow(keys_, pool_.n_threads() * stride * sizeof(uint32_t), memory_);
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
      const uint32_t n = call.shape.window ? n_visible(position, call.shape.window) : end;
      if (n > call.shape.n_top) {
        rows_.push_back({&run, run.first_row + i, position, end - n, end});
      }
    }
  }
}

void Indexer::select(const IndexTarget& keys, const IndexShape& shape, Rows q, Rows weights,
                     uint32_t* tokens) {
  CHECK(shape.n_top > 0 && q.n_cols == shape.n_heads * keys.dim);
  CHECK(kPageTokens % keys.key_tokens == 0 && (keys.key_tokens == 1 || shape.window == 0));
  CHECK(weights.n_cols == shape.n_heads && weights.n_rows == q.n_rows);
  Call call{keys, shape, q, weights, tokens, 0};
  list_rows(call);
  if (rows_.empty()) return;
  for (const Row& row : rows_) call.stride = std::max(call.stride, padded(row.end));
  grow(scores_, wave_scores(call.stride) * sizeof(float), memory_);
  grow(keys_, pool_.n_threads() * call.stride * sizeof(uint32_t), memory_);
  const size_t n_at_once = std::max<size_t>(1, kWaveScores / call.stride);
  for (size_t first = 0; first < rows_.size(); first += n_at_once) {
    const auto wave = std::span<const Row>(rows_).subspan(first);
    const auto rows = wave.first(std::min(n_at_once, wave.size()));
    score_rows(call, rows);
    pool_.run(rows.size(), [&](size_t i, uint32_t thread) {
      auto* room = reinterpret_cast<uint32_t*>(keys_.floats()) + thread * call.stride;
      select_top(call, rows[i], scores_.floats() + i * call.stride, room);
    });
  }
}

void Indexer::score_rows(const Call& call, std::span<const Row> rows) {
  const uint32_t page_keys = call.keys.page_keys();
  const size_t n_items = (call.stride / page_keys + kItemPages - 1) / kItemPages;
  pool_.run(rows.size() * n_items, [&](size_t item, uint32_t) {
    const Row& row = rows[item / n_items];
    const auto first = static_cast<uint32_t>(item % n_items) * kItemPages;
    const uint32_t begin = std::max(first, row.first / page_keys);
    const uint32_t end = std::min(first + kItemPages, (row.end + page_keys - 1) / page_keys);
    if (begin >= end) return;
    kernels_.score(
        {.type = call.keys.type,
         .dim = call.keys.dim,
         .n_heads = call.shape.n_heads,
         .q = call.q.data + size_t{row.row} * call.q.stride,
         .weights = call.weights.data + size_t{row.row} * call.weights.stride,
         .pages = row.run->pages.data() + begin,
         .n_pages = end - begin,
         .offset = call.keys.offset,
         .page_keys = page_keys,
         .scores = scores_.floats() + item / n_items * call.stride + size_t{begin} * page_keys});
  });
}

// Finds the score of the last token or block that is selected, then lists all with a higher one,
// and as many of those with this score as there is room for.
void Indexer::select_top(const Call& call, const Row& row, const float* scores,
                         uint32_t* keys) const {
  const uint32_t n_top = call.shape.n_top;
  const uint32_t n = row.end - row.first;
  for (uint32_t i = 0; i < n; ++i) keys[i] = order_of(scores[row.first + i]);
  std::nth_element(keys, keys + n_top - 1, keys + n, std::greater());
  const uint32_t last = keys[n_top - 1];
  auto n_equal = static_cast<uint32_t>(
      n_top - std::count_if(keys, keys + n_top, [&](uint32_t key) { return key > last; }));
  uint32_t* out = call.tokens + size_t{row.row} * call.n_listed();
  for (uint32_t i = row.first; i < row.end; ++i) {
    const uint32_t key = order_of(scores[i]);
    if (key < last || (key == last && n_equal == 0)) continue;
    if (key == last) --n_equal;
    *out++ = i;
  }
  const uint32_t key_tokens = call.keys.key_tokens;
  if (key_tokens == 1) return;
  *out = (row.position + 1) % key_tokens != 0 ? row.end : SelectedTokens::kNoBlock;
}

}  // namespace kvik::cpu
