#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/page_kinds.h"
#include "backend/random_matrix.h"
#include "backend/selection.h"

// Attention to selected tokens of K and V that are not latent: lists of blocks for each KV head, or
// for all of them. tests/backend/cpu/attention/attention_test.cpp compares masks with the formula.
namespace kvik {
namespace {

using testing::backend_of;
using testing::kPageKinds;
using testing::OwnedRows;
using testing::PageKind;
using testing::Pages;
using testing::random_floats;
using testing::range;
using testing::same_bytes;

constexpr uint32_t kKvHeads = 2, kGroup = 3, kHeadDim = 40;
constexpr uint32_t kHeads = kKvHeads * kGroup;

using Lists = std::vector<std::vector<uint32_t>>;  // of a row: one for each KV head, or one

// The lists of some rows.
struct Selection {
  uint32_t block_tokens = 1;
  std::vector<Lists> rows;
  uint32_t n_budget = 0;
  uint32_t window = 0;
};

// One sequence in layer 1 of two.
class GroupedSequence {
 public:
  // keys: the number of each token's K and V.
  GroupedSequence(Backend& backend, PageKind kind, const std::vector<uint32_t>& keys)
      : backend_(backend),
        kind_(kind),
        geometry_{.type = kind.type,
                  .n_layers = 2,
                  .n_kv_heads = kKvHeads,
                  .head_dim = kHeadDim,
                  .keys_by_channel = kind.open && kind.type == KvType::kInt4},
        pages_(backend, keys.size() / kPageTokens + 1, backend.page_bytes(geometry_)),
        open_(backend, keys.size() / kPageTokens + 1,
              backend.page_bytes(geometry_.of_open_pages())) {
    const auto n = static_cast<uint32_t>(keys.size());
    const KvRun run = this->run(0, n);
    backend_.write_kv({geometry_, 1, {&run, 1}}, numbers(keys, 7, kKvHeads).rows,
                      numbers(keys, 5007, kKvHeads).rows);
  }

  // Attends rows from `first` on with the queries of these numbers, to the selection if there is
  // one.
  std::vector<float> attend(uint32_t first, const std::vector<uint32_t>& queries,
                            const Selection* selection = nullptr) {
    const auto n = static_cast<uint32_t>(queries.size());
    const OwnedRows in = numbers(queries, 9007, kHeads);
    OwnedRows out(backend_.memory(), n, kHeads * kHeadDim);
    const KvRun run = this->run(first, n);
    AttentionShape shape{.n_heads = kHeads, .scale = 0.3f};
    SelectedTokens selected;
    std::vector<uint32_t> blocks;
    const std::vector<uint32_t> rows = range(0, n);
    if (selection) {
      selected = pack(*selection, rows, blocks);
      shape.window = selection->window;
      shape.selected = &selected;
    }
    backend_.attention({geometry_, 1, {&run, 1}}, shape, in.rows, out.rows);
    return out.values();
  }

 private:
  static SelectedTokens pack(const Selection& selection, std::span<const uint32_t> rows,
                             std::vector<uint32_t>& blocks) {
    size_t n_top = 0;
    for (const Lists& lists : selection.rows) {
      for (const auto& list : lists) n_top = std::max(n_top, list.size());
    }
    for (const Lists& lists : selection.rows) {
      for (const auto& list : lists) {
        blocks.insert(blocks.end(), list.begin(), list.end());
        blocks.resize(blocks.size() + n_top - list.size(), SelectedTokens::kNoBlock);
      }
    }
    return {.blocks = blocks.data(),
            .n_top = static_cast<uint32_t>(n_top),
            .n_budget = selection.n_budget,
            .rows = rows,
            .block_tokens = selection.block_tokens,
            .n_lists = static_cast<uint32_t>(selection.rows.front().size())};
  }
  OwnedRows numbers(const std::vector<uint32_t>& rows, uint32_t seed, uint32_t n_heads) {
    std::vector<float> all;
    for (const uint32_t row : rows) {
      const auto values = random_floats(size_t{n_heads} * kHeadDim, seed + row);
      all.insert(all.end(), values.begin(), values.end());
    }
    return {backend_.memory(), static_cast<uint32_t>(rows.size()), n_heads * kHeadDim, all};
  }
  KvRun run(uint32_t first, uint32_t n) {
    KvRun run{pages_.addresses, first, 0, n};
    if (kind_.open) run.open = std::span(open_.addresses).subspan(first / kPageTokens);
    return run;
  }

  Backend& backend_;
  PageKind kind_;
  KvGeometry geometry_;
  Pages pages_, open_;
};

std::vector<float> columns_of(const std::vector<float>& row, uint32_t kv_head) {
  const auto begin = row.begin() + kv_head * kGroup * kHeadDim;
  return {begin, begin + kGroup * kHeadDim};
}

// Returns the tokens of blocks, up to `end`.
std::vector<uint32_t> tokens_of(const std::vector<uint32_t>& blocks, uint32_t block_tokens,
                                uint32_t end) {
  std::vector<uint32_t> all;
  for (const uint32_t block : blocks) {
    const auto of_block = range(block * block_tokens, std::min(end, (block + 1) * block_tokens));
    all.insert(all.end(), of_block.begin(), of_block.end());
  }
  return all;
}

TEST(SelectedTables, each_kv_head_has_the_bits_of_a_context_without_the_other_blocks) {
  const Lists lists = {{0, 3, 4, 11}, {1, 2, 9, 11}};
  const Selection selection{.block_tokens = 64, .rows = {lists}};
  for (const PageKind kind : kPageKinds) {
    for (const std::string_view isa : cpu_isa_names()) {
      const auto backend = backend_of(isa);
      GroupedSequence whole(*backend, kind, range(0, 750));
      const auto got = whole.attend(749, {1}, &selection);
      for (uint32_t head = 0; head < kKvHeads; ++head) {
        const auto kept = tokens_of(lists[head], 64, 750);
        GroupedSequence alone(*backend, kind, kept);
        const auto want = alone.attend(static_cast<uint32_t>(kept.size()) - 1, {1});
        EXPECT_TRUE(same_bytes(columns_of(got, head), columns_of(want, head)))
            << name_of(kind.type) << kind.open << isa;
      }
    }
  }
}

TEST(SelectedTables, a_selection_of_all_tokens_has_the_bits_of_attention_to_all) {
  for (const PageKind kind : kPageKinds) {
    for (const uint32_t n_threads : {1, 3}) {
      const auto backend = backend_of("", n_threads);
      GroupedSequence sequence(*backend, kind, range(0, 610));
      const auto want = sequence.attend(609, {1});
      for (const uint32_t block_tokens : {1, 5, 16, 32, 48, 128}) {
        const auto all = range(0, 609 / block_tokens + 1);
        const Selection selection{.block_tokens = block_tokens, .rows = {{all}}};
        EXPECT_TRUE(same_bytes(sequence.attend(609, {1}, &selection), want))
            << name_of(kind.type) << kind.open << " " << block_tokens;
      }
    }
  }
}

// Rows up to the budget attend to all tokens, and their lists are not read.
TEST(SelectedTables, rows_within_the_budget_attend_to_all_tokens) {
  for (const PageKind kind : kPageKinds) {
    const auto backend = backend_of("");
    GroupedSequence sequence(*backend, kind, range(0, 200));
    Selection selection{.block_tokens = 32, .rows = {}, .n_budget = 96};
    for (uint32_t row = 90; row < 100; ++row) selection.rows.push_back({{0, 2, 3}, {1, 2, 3}});
    for (uint32_t row = 90; row < 96; ++row) selection.rows[row - 90] = {{9000}, {9000}};
    const auto want = sequence.attend(90, range(0, 10));
    const auto got = sequence.attend(90, range(0, 10), &selection);
    const size_t n_full = size_t{6} * kHeads * kHeadDim;
    EXPECT_TRUE(std::equal(got.begin(), got.begin() + n_full, want.begin()));
    for (size_t i = n_full; i < got.size(); i += kHeadDim) EXPECT_NE(got[i], want[i]);
  }
}

// Lists of single tokens, with and without the row's own page.
Selection scattered_tokens(uint32_t first, uint32_t n_rows, uint32_t n_lists) {
  Selection selection;
  for (uint32_t row = first; row < first + n_rows; ++row) {
    Lists lists(n_lists);
    for (uint32_t i = 0; i < n_lists; ++i) {
      const uint32_t end = row % 3 == 0 ? row / kPageTokens * kPageTokens : row + 1;
      for (uint32_t t = i + row % 5; t < end; t += 1 + t % 13) lists[i].push_back(t);
    }
    selection.rows.push_back(lists);
  }
  return selection;
}

TEST(SelectedTables, single_tokens_give_the_formula_in_double) {
  const auto backend = backend_of("scalar");
  const uint32_t position = 700;
  const Selection selection = scattered_tokens(position, 1, kKvHeads);
  GroupedSequence sequence(*backend, {KvType::kF32, false}, range(0, position + 1));
  const auto got = sequence.attend(position, {3}, &selection);
  const auto q = random_floats(size_t{kHeads} * kHeadDim, 9007 + 3);
  for (uint32_t head = 0; head < kHeads; ++head) {
    const uint32_t kv_head = head / kGroup;
    double total = 0;
    std::vector<double> sums(kHeadDim);
    for (const uint32_t t : selection.rows[0][kv_head]) {
      const auto k = random_floats(size_t{kKvHeads} * kHeadDim, 7 + t);
      const auto v = random_floats(size_t{kKvHeads} * kHeadDim, 5007 + t);
      double score = 0;
      for (uint32_t d = 0; d < kHeadDim; ++d) {
        score += double{q[head * kHeadDim + d]} * k[kv_head * kHeadDim + d];
      }
      const double weight = std::exp(0.3f * score);
      total += weight;
      for (uint32_t d = 0; d < kHeadDim; ++d) sums[d] += weight * v[kv_head * kHeadDim + d];
    }
    for (uint32_t d = 0; d < kHeadDim; ++d) {
      ASSERT_NEAR(got[head * kHeadDim + d], sums[d] / total, 2e-6) << head << " " << d;
    }
  }
}

TEST(SelectedTables, rows_sets_and_threads_do_not_change_bits) {
  const Selection all = scattered_tokens(40, 100, kKvHeads);
  for (const PageKind kind : kPageKinds) {
    std::vector<float> first;
    for (const std::string_view isa : cpu_isa_names()) {
      const auto backend = backend_of(isa, isa == "scalar" ? 1 : 3);
      GroupedSequence sequence(*backend, kind, range(0, 140));
      const auto together = sequence.attend(40, range(0, 100), &all);
      if (first.empty()) first = together;
      EXPECT_TRUE(same_bytes(together, first)) << name_of(kind.type) << kind.open << isa;
    }
    const auto backend = backend_of("");
    GroupedSequence sequence(*backend, kind, range(0, 140));
    for (uint32_t row = 0; row < 100; ++row) {
      const Selection one{.rows = {all.rows[row]}};
      const auto begin = first.begin() + static_cast<ptrdiff_t>(row) * kHeads * kHeadDim;
      EXPECT_TRUE(
          same_bytes(sequence.attend(40 + row, {row}, &one), {begin, begin + kHeads * kHeadDim}))
          << name_of(kind.type) << kind.open << " row " << row;
    }
  }
}

TEST(SelectedTables, one_list_serves_all_kv_heads) {
  const Selection one = scattered_tokens(60, 20, 1);
  Selection each = one;
  for (Lists& lists : each.rows) lists.push_back(lists.front());
  for (const PageKind kind : kPageKinds) {
    const auto backend = backend_of("");
    GroupedSequence sequence(*backend, kind, range(0, 80));
    EXPECT_TRUE(same_bytes(sequence.attend(60, range(0, 20), &one),
                           sequence.attend(60, range(0, 20), &each)));
  }
}

// Quantized pages stay close to exact ones: also K by channel, of which tokens cannot be copied.
TEST(SelectedTables, all_page_types_are_close_to_f32) {
  const Selection selection = scattered_tokens(300, 40, kKvHeads);
  const auto backend = backend_of("");
  GroupedSequence exact(*backend, {KvType::kF32, false}, range(0, 340));
  const auto want = exact.attend(300, range(0, 40), &selection);
  for (const PageKind kind : kPageKinds) {
    GroupedSequence sequence(*backend, kind, range(0, 340));
    const auto got = sequence.attend(300, range(0, 40), &selection);
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
      size += double{want[i]} * want[i];
    }
    EXPECT_LT(std::sqrt(error / size), key_type(kind.type) == KvType::kInt4 ? 0.25 : 0.15)
        << name_of(kind.type) << kind.open;
  }
}

TEST(SelectedTables, a_window_cuts_off_the_beginning_of_a_block) {
  const uint32_t position = 150;
  const Selection blocks{.block_tokens = 48, .rows = {{{1, 3}}}, .window = 80};
  std::vector<uint32_t> tokens;
  for (const uint32_t t : tokens_of({1, 3}, 48, position + 1)) {
    if (t > position - 80) tokens.push_back(t);
  }
  const Selection single{.rows = {{tokens}}};
  for (const PageKind kind : kPageKinds) {
    const auto backend = backend_of("");
    GroupedSequence sequence(*backend, kind, range(0, position + 1));
    EXPECT_TRUE(same_bytes(sequence.attend(position, {1}, &blocks),
                           sequence.attend(position, {1}, &single)));
  }
}

}  // namespace
}  // namespace kvik
