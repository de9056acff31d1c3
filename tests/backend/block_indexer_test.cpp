#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/random_matrix.h"
#include "backend/selection.h"
#include "tensor/half.h"

// Indexers whose keys are those of blocks of tokens, and gates of residual streams.
namespace kvik {
namespace {

using testing::backend_of;
using testing::OwnedRows;
using testing::Pages;
using testing::random_floats;

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

std::vector<float> numbers(uint32_t seed, uint32_t first_row, uint32_t n_rows, uint32_t width) {
  std::vector<float> all;
  for (uint32_t row = first_row; row < first_row + n_rows; ++row) {
    const auto values = random_floats(width, seed + 100 * row);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Writes the keys of blocks at the rows of their last tokens, and selects blocks for each row, in
// chunks. A row that could attend to all of at most n_top blocks has an empty list.
std::vector<std::vector<uint32_t>> selected(Backend& backend, const BlockCase& c, uint32_t chunk) {
  Pages pages(backend, (c.n_tokens + kPageTokens - 1) / kPageTokens,
              c.offset + kPageTokens / c.block_tokens * index_key_bytes(c.type, c.dim));
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t first = 0; first < c.n_tokens; first += chunk) {
    const uint32_t n = std::min(chunk, c.n_tokens - first);
    const KvRun run{pages.addresses, first, 0, n};
    const IndexTarget target{c.offset, index_key_type(c.type), c.dim, {&run, 1}, c.block_tokens};
    Memory& memory = backend.memory();
    backend.write_index(target, OwnedRows(memory, n, c.dim, numbers(1, first, n, c.dim)).rows);
    const OwnedRows q(memory, n, c.n_heads * c.dim, numbers(2, first, n, c.n_heads * c.dim));
    const OwnedRows weights(memory, n, c.n_heads, numbers(3, first, n, c.n_heads));
    std::vector<uint32_t> blocks(size_t{n} * c.n_listed(), 12345);
    backend.select_tokens(target, {c.n_heads, c.n_top}, q.rows, weights.rows, blocks.data());
    for (uint32_t i = 0; i < n; ++i) {
      const auto begin = blocks.begin() + static_cast<ptrdiff_t>(size_t{i} * c.n_listed());
      lists.emplace_back(begin, begin + c.n_listed());
      if ((first + i + 1) / c.block_tokens > c.n_top) continue;
      for (const uint32_t block : lists.back()) EXPECT_EQ(block, 12345u);
      lists.back().clear();
    }
  }
  return lists;
}

// The formula in double; the scores of these numbers differ by more than its rounding errors.
std::vector<uint32_t> expected(const BlockCase& c, uint32_t position) {
  const uint32_t n = (position + 1) / c.block_tokens;
  if (n <= c.n_top) return {};
  const auto q = numbers(2, position, 1, c.n_heads * c.dim);
  const auto weights = numbers(3, position, 1, c.n_heads);
  std::vector<double> scores;
  for (uint32_t block = 0; block < n; ++block) {
    auto key = numbers(1, (block + 1) * c.block_tokens - 1, 1, c.dim);
    if (c.type != KvType::kF32) {
      for (float& x : key) x = bf16_to_f32(f32_to_bf16(x));
    }
    double score = 0;
    for (uint32_t h = 0; h < c.n_heads; ++h) {
      double dot = 0;
      for (uint32_t d = 0; d < c.dim; ++d) dot += double{q[h * c.dim + d]} * key[d];
      score += weights[h] * std::max(dot, 0.0);
    }
    scores.push_back(score);
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return scores[a] > scores[b]; });
  order.resize(c.n_top);
  std::ranges::sort(order);
  order.push_back((position + 1) % c.block_tokens != 0 ? n : SelectedTokens::kNoBlock);
  return order;
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
    std::vector<std::vector<uint32_t>> first;
    for (const std::string_view isa : cpu_isa_names()) {
      for (const uint32_t n_threads : {1, 3}) {
        for (const uint32_t chunk : {700, 64, 33}) {
          const auto lists = selected(*backend_of(isa, n_threads), c, chunk);
          if (first.empty()) first = lists;
          EXPECT_EQ(lists, first) << isa << " " << n_threads << " " << chunk;
        }
      }
    }
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
