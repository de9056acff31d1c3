#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "backend/random_matrix.h"
#include "backend/selection.h"

// Indexers, and attention to the tokens that they select.
namespace kvik {
namespace {

using testing::add_lists;
using testing::backend_of;
using testing::expect_same_lists;
using testing::highest;
using testing::index_product;
using testing::index_score;
using testing::kUnwritten;
using testing::Lists;
using testing::numbers;
using testing::OwnedRows;
using testing::Pages;
using testing::random_floats;
using testing::range;
using testing::same_bytes;
using testing::select_in_chunks;
using testing::stored_key;

struct IndexCase {
  KvType type = KvType::kF32;
  uint32_t n_tokens = 150;
  uint32_t n_heads = 6;
  uint32_t dim = 24;
  uint32_t n_top = 16;
  uint32_t window = 0;
  size_t offset = 64;
};

// Writes the tokens and selects those of each row, in chunks. A row that could attend to at most
// n_top tokens has an empty list.
Lists selected(Backend& backend, const IndexCase& c, uint32_t chunk, float query_factor = 1.0f) {
  Lists lists;
  select_in_chunks(
      backend, c, 1, chunk, query_factor,
      [&](uint32_t first, const IndexTarget& target, Rows q, Rows weights) {
        std::vector<uint32_t> tokens(size_t{q.n_rows} * c.n_top, kUnwritten);
        backend.select_tokens(target, {c.n_heads, c.n_top, c.window}, q, weights, tokens.data());
        const auto is_full = [&](uint32_t i) { return n_visible(first + i, c.window) <= c.n_top; };
        add_lists(tokens, c.n_top, is_full, lists);
      });
  return lists;
}

// The formula in double; the scores of these numbers differ by more than its rounding errors.
std::vector<uint32_t> expected(const IndexCase& c, uint32_t position) {
  const uint32_t n = n_visible(position, c.window);
  if (n <= c.n_top) return {};
  const uint32_t first = position + 1 - n;
  std::vector<double> scores;
  for (uint32_t t = first; t <= position; ++t) {
    scores.push_back(index_score(c, position, stored_key(c.type, t, c.dim)));
  }
  std::vector<uint32_t> tokens = highest(scores, c.n_top);
  for (uint32_t& token : tokens) token += first;
  return tokens;
}

TEST(Indexer, the_tokens_with_the_highest_scores_are_selected) {
  for (const KvType type : {KvType::kF32, KvType::kInt8}) {
    for (const uint32_t window : {0u, 40u}) {
      for (const auto& [n_heads, dim] : {std::pair(6u, 24u), {8u, 16u}, {1u, 40u}}) {
        const IndexCase c{.type = type, .n_heads = n_heads, .dim = dim, .window = window};
        const auto lists = selected(*backend_of("scalar"), c, 64);
        for (uint32_t row = 0; row < c.n_tokens; ++row) {
          ASSERT_EQ(lists[row], expected(c, row)) << name_of(type) << " row " << row;
        }
      }
    }
  }
}

TEST(Indexer, sets_threads_and_chunks_select_the_same_tokens) {
  for (const KvType type : {KvType::kF32, KvType::kInt4}) {
    const IndexCase c{.type = type, .n_tokens = 700, .n_heads = 7, .n_top = 50};
    expect_same_lists({700, 64, 33}, [&](Backend& backend, uint32_t chunk) {
      return selected(backend, c, chunk);
    });
  }
}

// Without queries all scores are equal.
TEST(Indexer, of_equal_scores_the_lower_positions_are_selected) {
  const IndexCase c{.n_tokens = 100};
  std::vector<uint32_t> lowest(c.n_top);
  std::iota(lowest.begin(), lowest.end(), 0);
  for (const std::string_view isa : cpu_isa_names()) {
    const auto lists = selected(*backend_of(isa), c, 100, 0.0f);
    for (uint32_t row = c.n_top; row < c.n_tokens; ++row) EXPECT_EQ(lists[row], lowest);
  }
}

// Heads that select blocks on their own.
struct BlockCase {
  KvType type = KvType::kF32;
  uint32_t n_tokens = 300;
  uint32_t n_heads = 3;
  uint32_t dim = 24;
  uint32_t n_top = 4;
  uint32_t block_tokens = 8;
  uint32_t n_local = 1;
  size_t offset = 64;

  IndexShape shape() const {
    return {.n_heads = n_heads, .n_top = n_top, .block_tokens = block_tokens, .n_local = n_local};
  }
};

// Writes the tokens and selects the blocks of each row and head, in chunks. A row that attends to
// all tokens has empty lists.
Lists selected_blocks(Backend& backend, const BlockCase& c, uint32_t chunk,
                      float query_factor = 1.0f) {
  Lists lists;
  select_in_chunks(backend, c, 1, chunk, query_factor,
                   [&](uint32_t first, const IndexTarget& target, Rows q, Rows) {
                     std::vector<uint32_t> blocks(size_t{q.n_rows} * c.n_heads * c.n_top,
                                                  kUnwritten);
                     backend.select_tokens(target, c.shape(), q, {}, blocks.data());
                     const auto is_full = [&](uint32_t i) {
                       return first + i / c.n_heads + 1 <= c.n_top * c.block_tokens;
                     };
                     add_lists(blocks, c.n_top, is_full, lists);
                   });
  return lists;
}

std::vector<uint32_t> expected_blocks(const BlockCase& c, uint32_t position, uint32_t head) {
  if (position + 1 <= c.n_top * c.block_tokens) return {};
  const auto q = numbers(2, position, 1, c.n_heads * c.dim);
  const uint32_t n = position / c.block_tokens + 1;
  std::vector<double> scores(n, -INFINITY);
  for (uint32_t t = 0; t <= position; ++t) {
    double& score = scores[t / c.block_tokens];
    score = std::max(score, index_product(q, stored_key(c.type, t, c.dim), head));
  }
  for (uint32_t i = n - std::min(n, c.n_local); i < n; ++i) scores[i] = INFINITY;
  return highest(scores, c.n_top);
}

TEST(Indexer, each_head_selects_the_blocks_with_the_highest_scores) {
  for (const KvType type : {KvType::kF32, KvType::kInt8}) {
    for (const auto& [block_tokens, n_top, n_local] :
         {std::tuple(8u, 4u, 1u), {32u, 2u, 1u}, {64u, 3u, 2u}, {5u, 9u, 0u}, {48u, 2u, 2u}}) {
      for (const uint32_t n_heads : {1u, 3u, 6u}) {
        const BlockCase c{.type = type,
                          .n_heads = n_heads,
                          .n_top = n_top,
                          .block_tokens = block_tokens,
                          .n_local = n_local};
        const auto lists = selected_blocks(*backend_of("scalar"), c, 77);
        for (uint32_t i = 0; i < c.n_tokens * n_heads; ++i) {
          ASSERT_EQ(lists[i], expected_blocks(c, i / n_heads, i % n_heads))
              << name_of(type) << " blocks of " << block_tokens << " row " << i / n_heads;
        }
      }
    }
  }
}

TEST(Indexer, sets_threads_and_chunks_select_the_same_blocks) {
  for (const uint32_t block_tokens : {12u, 32u}) {
    const BlockCase c{.type = KvType::kInt4,
                      .n_tokens = 700,
                      .n_heads = 5,
                      .n_top = 6,
                      .block_tokens = block_tokens};
    expect_same_lists({700, 33}, [&](Backend& backend, uint32_t chunk) {
      return selected_blocks(backend, c, chunk);
    });
  }
}

TEST(Indexer, of_equal_scores_the_earlier_blocks_are_selected_beside_the_last) {
  const BlockCase c{.n_tokens = 100, .n_local = 2};
  for (const std::string_view isa : cpu_isa_names()) {
    const auto lists = selected_blocks(*backend_of(isa), c, 100, 0.0f);
    for (uint32_t row = c.n_top * c.block_tokens; row < c.n_tokens; ++row) {
      const uint32_t own = row / c.block_tokens;
      EXPECT_EQ(lists[size_t{row} * c.n_heads], (std::vector{0u, 1u, own - 1, own}));
    }
  }
}

// A sequence with latent K in one layer of two, which attends to selected tokens.
struct SparseCase {
  KvType type = KvType::kF32;
  bool open = false;
  uint32_t n_heads = 5;

  KvGeometry geometry() const {
    return {.type = type, .n_layers = 2, .n_kv_heads = 1, .head_dim = 40, .latent_dim = 32};
  }
  std::string name() const { return std::string(name_of(type)) + (open ? " open" : ""); }
};
constexpr SparseCase kSparseCases[] = {{KvType::kF32},        {KvType::kBF16},
                                       {KvType::kInt8},       {KvType::kInt4},
                                       {KvType::kInt8, true}, {KvType::kInt4, true}};

class SparseSequence {
 public:
  // keys: the number of each token's K.
  SparseSequence(Backend& backend, const SparseCase& c, const std::vector<uint32_t>& keys)
      : backend_(backend),
        case_(c),
        geometry_(c.geometry()),
        pages_(backend, keys.size() / kPageTokens + 1, backend.page_bytes(geometry_)),
        open_(backend, keys.size() / kPageTokens + 1,
              backend.page_bytes(geometry_.of_open_pages())) {
    std::vector<float> all;
    for (const uint32_t key : keys) {
      const auto values = random_floats(geometry_.head_dim, 7 + key);
      all.insert(all.end(), values.begin(), values.end());
    }
    const auto n = static_cast<uint32_t>(keys.size());
    const KvRun run = this->run(0, n);
    backend_.write_kv({geometry_, 1, {&run, 1}},
                      OwnedRows(backend_.memory(), n, geometry_.head_dim, all).rows, {});
  }

  // Attends rows from `first` on with the queries of these numbers; lists: blocks of each row.
  std::vector<float> attend(uint32_t first, const std::vector<uint32_t>& queries,
                            const std::vector<std::vector<uint32_t>>& lists,
                            uint32_t block_tokens = 1) {
    const auto n = static_cast<uint32_t>(queries.size());
    std::vector<float> q;
    for (const uint32_t query : queries) {
      const auto values = random_floats(case_.n_heads * geometry_.head_dim, 90 + query);
      q.insert(q.end(), values.begin(), values.end());
    }
    std::vector<uint32_t> tokens, rows;
    for (const auto& list : lists) tokens.insert(tokens.end(), list.begin(), list.end());
    for (uint32_t i = 0; i < n; ++i) rows.push_back(i);
    const auto n_top = lists.empty() ? 0 : static_cast<uint32_t>(lists.front().size());
    const SelectedTokens selected{tokens.data(), n_top, n_top * block_tokens - (block_tokens - 1),
                                  rows, block_tokens};
    const OwnedRows in(backend_.memory(), n, case_.n_heads * geometry_.head_dim, q);
    OwnedRows out(backend_.memory(), n, case_.n_heads * geometry_.value_dim());
    const KvRun run = this->run(first, n);
    backend_.attention(
        {geometry_, 1, {&run, 1}},
        {.n_heads = case_.n_heads, .scale = 0.3f, .selected = lists.empty() ? nullptr : &selected},
        in.rows, out.rows);
    return out.values();
  }

 private:
  KvRun run(uint32_t first, uint32_t n) {
    KvRun run{pages_.addresses, first, 0, n};
    if (case_.open) run.open = std::span(open_.addresses).subspan(first / kPageTokens);
    return run;
  }

  Backend& backend_;
  SparseCase case_;
  KvGeometry geometry_;
  Pages pages_, open_;
};

// The selected tokens lie as they would in a sequence without the others: whole pages, and the
// beginning of the row's own page.
TEST(SelectedTokens, a_row_has_the_bits_of_a_context_without_the_other_tokens) {
  for (const SparseCase& c : kSparseCases) {
    for (const std::string_view isa : cpu_isa_names()) {
      const auto backend = backend_of(isa);
      std::vector<uint32_t> kept = range(32, 64);
      for (const auto& [begin, end] : {std::pair(96u, 672u), {704u, 709u}}) {
        const auto more = range(begin, end);
        kept.insert(kept.end(), more.begin(), more.end());
      }
      SparseSequence whole(*backend, c, range(0, 720));
      SparseSequence alone(*backend, c, kept);
      const auto want = alone.attend(static_cast<uint32_t>(kept.size()) - 1, {1}, {});
      EXPECT_TRUE(same_bytes(whole.attend(719, {1}, {kept}), want)) << c.name() << " " << isa;
    }
  }
}

// Tokens of any pages: without open pages they are those of a shorter context.
TEST(SelectedTokens, tokens_may_lie_anywhere) {
  std::vector<uint32_t> kept;
  for (uint32_t token = 3; kept.size() < 70; token += 1 + token % 5) kept.push_back(token);
  for (const SparseCase& c : kSparseCases) {
    if (c.open) continue;
    for (const std::string_view isa : cpu_isa_names()) {
      const auto backend = backend_of(isa);
      SparseSequence whole(*backend, c, range(0, 300));
      SparseSequence alone(*backend, c, kept);
      const auto want = alone.attend(69, {4}, {});
      EXPECT_TRUE(same_bytes(whole.attend(299, {4}, {kept}), want)) << c.name() << " " << isa;
    }
  }
}

// Between 0 and 20 tokens lie in the row's own page.
TEST(SelectedTokens, tokens_of_the_open_page_are_read_from_there) {
  for (const uint32_t n_open : {0u, 1u, 7u, 20u}) {
    std::vector<uint32_t> kept;
    for (uint32_t token = 1; kept.size() < 50 - n_open; token += 3) kept.push_back(token);
    for (uint32_t i = 0; i < n_open; ++i) kept.push_back(288 + i);
    for (const KvType type : {KvType::kInt8, KvType::kInt4}) {
      std::vector<float> first;
      for (const std::string_view isa : cpu_isa_names()) {
        const auto backend = backend_of(isa);
        SparseSequence exact(*backend, {KvType::kF32}, range(0, 310));
        SparseSequence open(*backend, {type, true}, range(0, 310));
        const auto want = exact.attend(309, {2}, {kept});
        const auto got = open.attend(309, {2}, {kept});
        if (first.empty()) first = got;
        EXPECT_TRUE(same_bytes(got, first)) << isa;
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], want[i], type == KvType::kInt8 ? 0.05 : 0.6) << n_open << " " << i;
        }
      }
    }
  }
}

// Blocks are read as their tokens would be, up to the row's own position. The row's own block may
// be in the list or not, and a list may be shorter than others.
TEST(SelectedTokens, blocks_have_the_bits_of_their_tokens) {
  for (const uint32_t block_tokens : {2u, 4u, 16u}) {
    for (const uint32_t position : {399u, 401u, 414u}) {
      for (const bool has_own : {false, true}) {
        std::vector<uint32_t> blocks, tokens;
        for (uint32_t block = 1; blocks.size() < 9; block += 1 + block % 3) blocks.push_back(block);
        if (has_own) blocks.push_back(position / block_tokens);
        for (const uint32_t block : blocks) {
          for (uint32_t i = 0; i < block_tokens; ++i) {
            if (block * block_tokens + i <= position) tokens.push_back(block * block_tokens + i);
          }
        }
        blocks.resize(10, SelectedTokens::kNoBlock);
        for (const SparseCase& c : kSparseCases) {
          for (const std::string_view isa : cpu_isa_names()) {
            const auto backend = backend_of(isa);
            SparseSequence sequence(*backend, c, range(0, 420));
            EXPECT_TRUE(same_bytes(sequence.attend(position, {3}, {blocks}, block_tokens),
                                   sequence.attend(position, {3}, {tokens})))
                << c.name() << " " << isa << " " << block_tokens << " " << position;
          }
        }
      }
    }
  }
}

TEST(SelectedTokens, rows_may_be_computed_together_or_alone) {
  std::vector<std::vector<uint32_t>> lists;
  for (uint32_t row = 20; row < 140; ++row) {
    lists.emplace_back();
    for (uint32_t i = 0; i < 40; ++i) lists.back().push_back(row < 40 ? i : i * row / 40);
  }
  for (const SparseCase& c : kSparseCases) {
    for (const uint32_t n_threads : {1, 3}) {
      const auto backend = backend_of("", n_threads);
      SparseSequence sequence(*backend, c, range(0, 140));
      const auto all = sequence.attend(20, range(0, 120), lists);
      const size_t width = all.size() / 120;
      for (uint32_t row = 0; row < 120; ++row) {
        const auto one = sequence.attend(20 + row, {row}, {lists[row]});
        EXPECT_TRUE(same_bytes(one, {all.begin() + static_cast<ptrdiff_t>(row * width),
                                     all.begin() + static_cast<ptrdiff_t>((row + 1) * width)}))
            << c.name() << " row " << row;
      }
    }
  }
}

TEST(Indexer, reserved_memory_is_what_the_plan_states) {
  const auto backend = backend_of("");
  const HeadsUse all{SparseCase{KvType::kInt8}.geometry(), 5};
  HeadsUse some = all;
  some.n_top = 64;
  const auto bytes = [&](const HeadsUse& use) {
    return backend->scratch_bytes(
        {.n_rows = 40, .n_sequences = 4, .weights = {}, .heads = {use}, .n_ctx = 5000});
  };
  // Scores of a wave and of both threads; eight rows of two pages and one open page.
  const uint64_t scores = ((uint64_t{1} << 20) + 2 * 5024) * sizeof(float);
  const uint64_t page = 32 * (40 + 2 * sizeof(float)), open = 32 * 40 * 2;
  EXPECT_EQ(bytes(some) - bytes(all), scores + 8 * (2 * page + open));
}

TEST(Indexer, the_plan_counts_scores_of_blocks_and_page_tables) {
  const auto backend = backend_of("");
  const HeadsUse all{{.type = KvType::kInt8, .n_layers = 2, .n_kv_heads = 2, .head_dim = 32}, 4};
  HeadsUse some = all;
  some.n_top = 16;
  some.block_tokens = 128;
  some.n_lists = 2;
  const auto bytes = [&](const HeadsUse& use) {
    return backend->scratch_bytes(
        {.n_rows = 40, .n_sequences = 4, .weights = {}, .heads = {use}, .n_ctx = 5000});
  };
  // Scores of a wave; blocks of both threads, twice; 256 rows with two tables of 64 pages each.
  const uint64_t scores = ((uint64_t{1} << 20) + 2 * 2 * 40) * sizeof(float);
  const uint64_t table = 64 * (sizeof(void*) + sizeof(uint32_t)) + sizeof(void*) + sizeof(KvRun);
  const uint64_t n_tables = 256 * 2;
  const uint64_t more = bytes(some) - bytes(all);
  EXPECT_GT(more, scores + n_tables * table);
  EXPECT_LT(more, scores + n_tables * (table + 64));
}

}  // namespace
}  // namespace kvik
