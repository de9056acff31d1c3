#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/random_matrix.h"
#include "backend/selection.h"

// Indexers whose keys are those of blocks of tokens, and gates of residual streams.
namespace kvik {
namespace {

using testing::add_lists;
using testing::backend_of;
using testing::expect_same_lists;
using testing::highest;
using testing::index_score;
using testing::kUnwritten;
using testing::Lists;
using testing::OwnedRows;
using testing::random_floats;
using testing::select_in_chunks;
using testing::stored_key;

struct BlockCase {
  KvType type = KvType::kF32;
  uint32_t block_tokens = 4;
  uint32_t n_tokens = 150;
  uint32_t n_heads = 6;
  uint32_t dim = 24;
  uint32_t n_top = 5;
  size_t offset = 64;

  uint32_t n_listed() const { return n_top + 1; }
};

// Writes the keys of blocks at the rows of their last tokens, and selects blocks for each row, in
// chunks. A row that could attend to all of at most n_top blocks has an empty list.
Lists selected(Backend& backend, const BlockCase& c, uint32_t chunk) {
  Lists lists;
  select_in_chunks(backend, c, c.block_tokens, chunk, 1.0f,
                   [&](uint32_t first, const IndexTarget& target, Rows q, Rows weights) {
                     std::vector<uint32_t> blocks(size_t{q.n_rows} * c.n_listed(), kUnwritten);
                     backend.select_tokens(target, {c.n_heads, c.n_top}, q, weights, blocks.data());
                     const auto is_full = [&](uint32_t i) {
                       return (first + i + 1) / c.block_tokens <= c.n_top;
                     };
                     add_lists(blocks, c.n_listed(), is_full, lists);
                   });
  return lists;
}

// The formula in double; the scores of these numbers differ by more than its rounding errors.
std::vector<uint32_t> expected(const BlockCase& c, uint32_t position) {
  const uint32_t n = (position + 1) / c.block_tokens;
  if (n <= c.n_top) return {};
  std::vector<double> scores;
  for (uint32_t block = 0; block < n; ++block) {
    const auto key = stored_key(c.type, (block + 1) * c.block_tokens - 1, c.dim);
    scores.push_back(index_score(c, position, key));
  }
  std::vector<uint32_t> blocks = highest(scores, c.n_top);
  blocks.push_back((position + 1) % c.block_tokens != 0 ? n : SelectedTokens::kNoBlock);
  return blocks;
}

TEST(BlockIndexer, the_blocks_with_the_highest_scores_and_the_incomplete_one_are_selected) {
  for (const KvType type : {KvType::kF32, KvType::kInt8}) {
    for (const uint32_t block_tokens : {2u, 4u, 8u, 32u}) {
      for (const auto& [n_heads, dim] : {std::pair(6u, 24u), {8u, 16u}, {1u, 40u}}) {
        const BlockCase c{.type = type,
                          .block_tokens = block_tokens,
                          .n_heads = n_heads,
                          .dim = dim,
                          .n_top = block_tokens == 32 ? 2u : 5u};
        const auto lists = selected(*backend_of("scalar"), c, 64);
        for (uint32_t row = 0; row < c.n_tokens; ++row) {
          ASSERT_EQ(lists[row], expected(c, row))
              << name_of(type) << " blocks of " << block_tokens << " row " << row;
        }
      }
    }
  }
}

TEST(BlockIndexer, sets_threads_and_chunks_select_the_same_blocks) {
  for (const KvType type : {KvType::kF32, KvType::kInt4}) {
    const BlockCase c{.type = type, .n_tokens = 700, .n_heads = 7, .n_top = 20};
    expect_same_lists({700, 64, 33}, [&](Backend& backend, uint32_t chunk) {
      return selected(backend, c, chunk);
    });
  }
}

TEST(HeadGates, a_gate_is_the_sigmoid_of_the_signed_root_of_a_product) {
  constexpr uint32_t kRows = 5, kHeads = 3, kDim = 20;
  std::vector<float> first;
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    auto values = random_floats(kRows * kHeads * kDim, 1);
    std::fill_n(values.begin(), kDim, 0.0f);  // a product of zero
    const auto others = random_floats(kRows * kHeads * kDim, 2);
    const OwnedRows x(backend->memory(), kRows, kHeads * kDim, values);
    const OwnedRows y(backend->memory(), kRows, kHeads * kDim, others);
    OwnedRows out(backend->memory(), kRows, kHeads);
    backend->head_gates(x.rows, y.rows, out.rows);
    const std::vector<float> gates = out.values();
    EXPECT_EQ(gates[0], 0.5f);
    for (uint32_t head = 0; head < kRows * kHeads; ++head) {
      double product = 0;
      for (uint32_t d = 0; d < kDim; ++d) {
        product += double{values[head * kDim + d]} * others[head * kDim + d];
      }
      product /= std::sqrt(kDim);
      const double root = product == 0 ? 0 : std::sqrt(std::max(std::abs(product), 1e-6));
      EXPECT_NEAR(gates[head], 1 / (1 + std::exp(product < 0 ? root : -root)), 1e-5);
    }
    if (first.empty()) first = gates;
    EXPECT_EQ(gates, first) << isa;
  }
}

}  // namespace
}  // namespace kvik
