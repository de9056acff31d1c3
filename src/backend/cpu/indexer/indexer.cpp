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

// Returns the number of scores of a row, of which n_tokens are used: those of whole pages.
size_t padded(size_t n_tokens) { return pages_for(n_tokens) * kPageTokens; }

bool selects(const WorkLimits& limits) {
  return std::ranges::any_of(limits.heads, [](const HeadsUse& use) { return use.n_top > 0; });
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
  if (!selects(limits)) return 0;
  const size_t stride = padded(limits.n_ctx);
  return (wave_scores(stride) + pool_.n_threads() * stride) * sizeof(float);
}

void Indexer::reserve(const WorkLimits& limits) {
  if (!selects(limits)) return;
  const size_t stride = padded(limits.n_ctx);
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
      kernels_.write_key(to.type, to.dim, run.pages[token / kPageTokens] + to.offset,
                         token % kPageTokens, keys.data + size_t{run.first_row + i} * keys.stride);
    }
  }
}

void Indexer::list_rows(const Call& call) {
  rows_.clear();
  for (const KvRun& run : call.keys.runs) {
    for (uint32_t i = 0; i < run.n_rows; ++i) {
      const uint32_t end = run.first_position + i + 1;
      const uint32_t n = n_visible(end - 1, call.shape.window);
      if (n > call.shape.n_top) rows_.push_back({&run, run.first_row + i, end - n, end});
    }
  }
}

void Indexer::select(const IndexTarget& keys, const IndexShape& shape, Rows q, Rows weights,
                     uint32_t* tokens) {
  CHECK(shape.n_top > 0 && q.n_cols == shape.n_heads * keys.dim);
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
  const size_t n_items = (call.stride / kPageTokens + kItemPages - 1) / kItemPages;
  pool_.run(rows.size() * n_items, [&](size_t item, uint32_t) {
    const Row& row = rows[item / n_items];
    const auto first = static_cast<uint32_t>(item % n_items) * kItemPages;
    const uint32_t begin = std::max(first, row.first / kPageTokens);
    const uint32_t end =
        std::min<uint32_t>(first + kItemPages, static_cast<uint32_t>(pages_for(row.end)));
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
         .scores = scores_.floats() + item / n_items * call.stride + size_t{begin} * kPageTokens});
  });
}

// Finds the score of the last token that is selected, then lists all tokens with a higher one, and
// as many of those with this score as there is room for.
void Indexer::select_top(const Call& call, const Row& row, const float* scores,
                         uint32_t* keys) const {
  const uint32_t n_top = call.shape.n_top;
  const uint32_t n = row.end - row.first;
  for (uint32_t i = 0; i < n; ++i) keys[i] = order_of(scores[row.first + i]);
  std::nth_element(keys, keys + n_top - 1, keys + n, std::greater());
  const uint32_t last = keys[n_top - 1];
  auto n_equal = static_cast<uint32_t>(
      n_top - std::count_if(keys, keys + n_top, [&](uint32_t key) { return key > last; }));
  uint32_t* out = call.tokens + size_t{row.row} * n_top;
  for (uint32_t token = row.first; token < row.end; ++token) {
    const uint32_t key = order_of(scores[token]);
    if (key < last || (key == last && n_equal == 0)) continue;
    if (key == last) --n_equal;
    *out++ = token;
  }
}

}  // namespace kvik::cpu
