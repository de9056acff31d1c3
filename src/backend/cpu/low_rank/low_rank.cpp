#include "backend/cpu/low_rank/low_rank.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace kvik::cpu {
namespace {

// Output columns per item of work: enough to outweigh adding up the chunks, and few enough that all
// threads get some.
constexpr uint32_t kStripColumns = 512;
// Maximum number of pieces per item, which is the number of parallel chains for one row.
constexpr uint32_t kMaxPieces = 4;
// Items of work per thread. Several items balance the load if another process takes a core.
constexpr size_t kItemsPerThread = 4;

uint32_t ceil_div(uint32_t n, uint32_t unit) { return n / unit + (n % unit != 0); }

}  // namespace

// Divides the products into items. Few rows are distributed to the threads by pieces of k, many
// rows by row. The sums are the same.
void LowRank::cut(std::span<const LowRankTerm> terms) {
  size_t n_blocks = 0;
  for (const LowRankTerm& term : terms) n_blocks += ceil_div(term.x_rows.size(), kLowRankRows);
  const bool has_chunks = n_blocks < kItemsPerThread * pool_.n_threads();
  blocks_.clear();
  n_down_ = n_up_ = 0;
  size_t n_floats = 0;
  for (const LowRankTerm& term : terms) {
    const auto& matrix = static_cast<const LowRankPanels&>(*term.matrix);
    const auto n_rows = static_cast<uint32_t>(term.x_rows.size());
    CHECK(term.out_rows.size() == n_rows);
    for (uint32_t first = 0; first < n_rows; first += kLowRankRows) {
      const uint32_t n_chunks = has_chunks ? ceil_div(matrix.n_cols(), kLowRankPiece) : 1;
      const uint32_t n_together = std::clamp(n_chunks / pool_.n_threads(), 1u, kMaxPieces);
      const Block block{.term = &term,
                        .matrix = &matrix,
                        .first = first,
                        .n_rows = std::min(kLowRankRows, n_rows - first),
                        .n_chunks = n_chunks,
                        .n_together = n_together,
                        .n_strips = ceil_div(matrix.n_rows(), kStripColumns),
                        .first_down = n_down_,
                        .first_up = n_up_,
                        .first_float = n_floats};
      n_down_ += ceil_div(n_chunks, n_together);
      n_up_ += block.n_strips;
      n_floats += size_t{block.n_chunks} * block.n_rows * matrix.padded_rank();
      blocks_.push_back(block);
    }
  }
  if (sums_.size() < n_floats) sums_.resize(n_floats);
}

const LowRank::Block& LowRank::down_block(size_t item) const {
  return *std::prev(std::ranges::upper_bound(blocks_, item, {}, &Block::first_down));
}

const LowRank::Block& LowRank::up_block(size_t item) const {
  return *std::prev(std::ranges::upper_bound(blocks_, item, {}, &Block::first_up));
}

const std::byte* LowRank::weights_of(size_t item) const {
  if (item < n_down_) {
    const Block& block = down_block(item);
    return block.matrix->a(static_cast<uint32_t>(item - block.first_down) * block.n_together *
                           kLowRankPiece);
  }
  item = std::min(item, n_down_ + n_up_ - 1) - n_down_;
  const Block& block = up_block(item);
  return block.matrix->b(static_cast<uint32_t>(item - block.first_up) * kStripColumns);
}

void LowRank::down(size_t item, Rows x) {
  const Block& block = down_block(item);
  const LowRankPanels& matrix = *block.matrix;
  const float* rows[kLowRankRows];
  for (uint32_t r = 0; r < block.n_rows; ++r) {
    const size_t row = block.term->x_rows[block.first + r];
    DCHECK(row < x.n_rows);
    rows[r] = x.data + row * x.stride + block.term->x_column;
  }
  const bool is_whole = block.n_chunks == 1;
  const uint32_t chunk = static_cast<uint32_t>(item - block.first_down) * block.n_together;
  const uint32_t begin = chunk * kLowRankPiece;
  const uint32_t end = is_whole
                           ? matrix.n_cols()
                           : std::min(begin + block.n_together * kLowRankPiece, matrix.n_cols());
  const size_t n_sums = size_t{block.n_rows} * matrix.padded_rank();
  kernels_.down({.a = matrix.a(begin),
                 .type = matrix.type(),
                 .n_ranks = matrix.padded_rank(),
                 .x = rows,
                 .n_rows = block.n_rows,
                 .begin = begin,
                 .end = end,
                 .out = sums_.data() + block.first_float + chunk * n_sums,
                 .piece_stride = is_whole ? 0 : n_sums,
                 .ahead = weights_of(item + 1)});
}

void LowRank::up(size_t item, Rows out, uint32_t thread) {
  const Block& block = up_block(item);
  const LowRankPanels& matrix = *block.matrix;
  const uint32_t first = static_cast<uint32_t>(item - block.first_up) * kStripColumns;
  float* rows[kLowRankRows];
  for (uint32_t r = 0; r < block.n_rows; ++r) {
    const size_t row = block.term->out_rows[block.first + r];
    DCHECK(row < out.n_rows);
    rows[r] = out.data + row * out.stride + block.term->out_column + first;
  }
  std::vector<float>& scratch = scratch_[thread];
  const size_t n_floats = size_t{kLowRankRows} * matrix.padded_rank();
  if (scratch.size() < n_floats) scratch.resize(n_floats);
  kernels_.up({.b = matrix.b(first),
               .type = matrix.type(),
               .n_ranks = matrix.rank(),
               .scale = matrix.scale(),
               .sums = sums_.data() + block.first_float,
               .n_chunks = block.n_chunks,
               .sum_rows = block.n_rows,
               .sum_stride = matrix.padded_rank(),
               .n_rows = block.n_rows,
               .out = rows,
               .n_columns = std::min(kStripColumns, matrix.n_rows() - first),
               .scratch = scratch.data(),
               .ahead = weights_of(n_down_ + item + 1)});
}

void LowRank::add(Rows x, std::span<const LowRankTerm> terms, Rows out) {
  for (const LowRankTerm& term : terms) {
    CHECK(uint64_t{term.x_column} + term.matrix->n_cols() <= x.n_cols);
    CHECK(uint64_t{term.out_column} + term.matrix->n_rows() <= out.n_cols);
  }
  cut(terms);
  if (blocks_.empty()) return;
  pool_.run(n_down_, [&](size_t item, uint32_t) { down(item, x); });
  pool_.run(n_up_, [&](size_t item, uint32_t thread) { up(item, out, thread); });
}

}  // namespace kvik::cpu
