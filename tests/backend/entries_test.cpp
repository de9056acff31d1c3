#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/layout/kv_block.h"
#include "backend/random_matrix.h"
#include "backend/selection.h"

// Entries of several tokens, and attention to them.
namespace kvik {
namespace {

using testing::backend_of;
using testing::numbers;
using testing::OwnedRows;
using testing::Pages;
using testing::random_floats;

struct Case {
  uint32_t n_tokens = 4;  // of an entry
  bool overlaps = true;
  uint32_t dim = 48;
  uint32_t n_rows = 70;

  uint32_t n_parts() const { return overlaps ? 2 : 1; }
  uint32_t n_inputs() const { return 2 * n_parts() * dim; }
};
constexpr Case kCases[] = {{}, {8, false, 48}, {64, false, 32, 140}, {4, true, 24}, {2, true, 160}};

constexpr uint32_t kWidth = 2;  // of the gates, so that some weights are much larger than others

std::vector<float> inputs(const Case& c, uint32_t first, uint32_t n) {
  std::vector<float> x = numbers(1, first, n, c.n_inputs());
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % c.n_inputs() >= c.n_inputs() / 2) x[i] *= kWidth;
  }
  return x;
}

// Returns the entries of a sequence that is added in chunks. The last `n_drafts` tokens of each
// chunk are draft tokens first and then added again.
std::vector<float> entries(Backend& backend, const Case& c, uint32_t chunk, uint32_t n_drafts = 0) {
  Memory& memory = backend.memory();
  const std::vector<float> biases = random_floats(c.n_tokens * c.n_parts() * c.dim, 7);
  const OwnedRows positions(memory, c.n_tokens, c.n_parts() * c.dim, biases);
  const OwnedRows state(memory, 3 * c.n_parts(), c.dim,
                        std::vector<float>(3 * c.n_parts() * c.dim, 12345.0f));
  const EntryShape shape{c.dim, c.n_tokens, c.overlaps, positions.rows.data};
  std::vector<float> all;
  for (uint32_t first = 0; first < c.n_rows; first += chunk) {
    const uint32_t n = std::min(chunk, c.n_rows - first);
    const uint32_t n_late = std::min(n, n_drafts);
    const OwnedRows x(memory, n, c.n_inputs(), inputs(c, first, n));
    OwnedRows out(memory, n, c.dim);
    const std::vector<uint32_t> at = testing::range(first, first + n);
    const StateRun run{state.rows.data, 0, n, n_late};
    backend.compress(shape, {&run, 1}, at, x.rows, out.rows);
    const std::vector<float> made = out.values();
    if (n_late > 0) {  // accepted
      const StateRun accepted{state.rows.data, n - n_late, n_late, 0};
      OwnedRows again(memory, n, c.dim);
      backend.compress(shape, {&accepted, 1}, at, x.rows, again.rows);
      const std::vector<float> same = again.values();
      EXPECT_TRUE(std::equal(made.end() - n_late * c.dim, made.end(), same.end() - n_late * c.dim));
    }
    all.insert(all.end(), made.begin(), made.end());
  }
  return all;
}

// The formula in double.
std::vector<double> entry(const Case& c, uint32_t number) {
  const std::vector<float> biases = random_floats(c.n_tokens * c.n_parts() * c.dim, 7);
  std::vector<double> sums(c.dim), weighted(c.dim);
  const auto add = [&](uint32_t token, uint32_t part) {
    const std::vector<float> x = inputs(c, token, 1);
    for (uint32_t d = 0; d < c.dim; ++d) {
      const uint32_t at = part * c.dim + d;
      const double gate =
          double{x[c.n_inputs() / 2 + at]} + biases[token % c.n_tokens * c.n_parts() * c.dim + at];
      sums[d] += std::exp(gate);
      weighted[d] += std::exp(gate) * x[at];
    }
  };
  for (uint32_t i = 0; i < c.n_tokens; ++i) {
    if (c.overlaps && number > 0) add((number - 1) * c.n_tokens + i, 0);
    add(number * c.n_tokens + i, c.overlaps ? 1 : 0);
  }
  for (uint32_t d = 0; d < c.dim; ++d) weighted[d] /= sums[d];
  return weighted;
}

TEST(Entries, an_entry_is_the_mean_of_values_weighted_by_the_softmax_of_gates) {
  for (const Case& c : kCases) {
    const std::vector<float> made = entries(*backend_of("scalar"), c, c.n_rows);
    for (uint32_t row = 0; row < c.n_rows; ++row) {
      const bool is_last = (row + 1) % c.n_tokens == 0;
      const auto expected = is_last ? entry(c, row / c.n_tokens) : std::vector<double>(c.dim);
      for (uint32_t d = 0; d < c.dim; ++d) {
        ASSERT_NEAR(made[row * c.dim + d], expected[d], 2e-6) << c.n_tokens << " row " << row;
      }
    }
  }
}

TEST(Entries, sets_chunks_and_draft_tokens_give_the_same_bits) {
  for (const Case& c : kCases) {
    const std::vector<float> expected = entries(*backend_of("scalar"), c, c.n_rows);
    for (const std::string_view isa : cpu_isa_names()) {
      for (const uint32_t chunk : {1u, 7u, 32u, c.n_rows}) {
        EXPECT_EQ(entries(*backend_of(isa), c, chunk), expected) << isa << " chunk " << chunk;
        EXPECT_EQ(entries(*backend_of(isa, 1), c, chunk, 3), expected)
            << isa << " drafts " << chunk;
      }
    }
  }
}

constexpr uint32_t kDim = 48;

struct AttentionCase {
  KvType type = KvType::kF32;
  uint32_t n_tokens = 4;
  uint32_t n_top = UINT32_MAX;
  uint32_t window = 24;
  uint32_t first_slot = 8;
  uint32_t n_rows = 150;
  uint32_t n_heads = 5;

  uint32_t row() const { return n_heads * kDim; }
};

// Returns the entries that a row selects: every second of the last ones.
std::vector<uint32_t> list(const AttentionCase& c, uint32_t position) {
  const uint32_t n = (position + 1) / c.n_tokens;
  std::vector<uint32_t> all = testing::range(0, n);
  if (n <= c.n_top) return all;
  all.erase(all.begin(), all.end() - std::min(n, 2 * c.n_top));
  std::vector<uint32_t> some;
  for (uint32_t i = 0; i < c.n_top; ++i)
    some.push_back(all[std::min<size_t>(2 * i, all.size() - 1)]);
  std::ranges::sort(some);
  some.erase(std::unique(some.begin(), some.end()), some.end());
  for (uint32_t entry = 0; some.size() < c.n_top; ++entry) {
    if (std::ranges::count(some, entry) == 0) some.push_back(entry);
  }
  std::ranges::sort(some);
  return some;
}

std::vector<float> attended(Backend& backend, const AttentionCase& c, uint32_t chunk) {
  Memory& memory = backend.memory();
  const KvGeometry geometry{
      .type = c.type, .n_layers = 2, .n_kv_heads = 1, .head_dim = kDim, .latent_dim = kDim};
  const uint32_t n_pages = (c.n_rows + kPageTokens - 1) / kPageTokens;
  Pages pages(backend, n_pages, backend.page_bytes(geometry));
  Pages entry_pages(backend, n_pages, backend.page_bytes(geometry));
  const OwnedRows sinks(memory, 1, c.n_heads, random_floats(c.n_heads, 9));
  std::vector<float> all;
  for (uint32_t first = 0; first < c.n_rows; first += chunk) {
    const uint32_t n = std::min(chunk, c.n_rows - first);
    const KvRun run{pages.addresses, first, 0, n};
    const KvRun entry_run{entry_pages.addresses, first, 0, n};
    const KvTarget kv{geometry, 1, {&run, 1}};
    const EntryTarget to{{geometry, 1, {&entry_run, 1}}, c.n_tokens, c.first_slot};
    backend.write_kv(kv, OwnedRows(memory, n, kDim, numbers(1, first, n, kDim)).rows, {});
    backend.write_entries(to, OwnedRows(memory, n, kDim, numbers(2, first, n, kDim)).rows);
    const OwnedRows q(memory, n, c.row(), numbers(3, first, n, c.row()));
    OwnedRows out(memory, n, c.row());
    std::vector<uint32_t> lists;
    const uint32_t stride = c.n_top == UINT32_MAX ? 0 : c.n_top + 1;
    for (uint32_t row = 0; row < n && stride > 0; ++row) {
      std::vector<uint32_t> own = list(c, first + row);
      own.resize(stride, SelectedTokens::kNoBlock);
      lists.insert(lists.end(), own.begin(), own.end());
    }
    const std::vector<uint32_t> rows = testing::range(0, n);
    backend.attend_to_entries(
        kv, to, {.lists = lists.data(), .n_top = c.n_top, .stride = stride, .rows = rows},
        {.n_heads = c.n_heads, .scale = 0.2f, .window = c.window, .sinks = sinks.rows.data}, q.rows,
        out.rows);
    const std::vector<float> made = out.values();
    all.insert(all.end(), made.begin(), made.end());
  }
  return all;
}

// The formula in double, for K in f32.
std::vector<double> attended_by_formula(const AttentionCase& c, uint32_t position) {
  std::vector<std::vector<float>> keys;
  for (const uint32_t entry : list(c, position)) {
    keys.push_back(numbers(2, (entry + 1) * c.n_tokens - 1, 1, kDim));
  }
  for (uint32_t token = position + 1 - n_visible(position, c.window); token <= position; ++token) {
    keys.push_back(numbers(1, token, 1, kDim));
  }
  const std::vector<float> q = numbers(3, position, 1, c.row());
  const std::vector<float> sinks = random_floats(c.n_heads, 9);
  std::vector<double> out(c.row());
  for (uint32_t head = 0; head < c.n_heads; ++head) {
    double sum = std::exp(double{sinks[head]});
    for (const std::vector<float>& key : keys) {
      double score = 0;
      for (uint32_t d = 0; d < kDim; ++d) score += double{q[head * kDim + d]} * key[d];
      const double weight = std::exp(0.2 * score);
      sum += weight;
      for (uint32_t d = 0; d < kDim; ++d) out[head * kDim + d] += weight * key[d];
    }
    for (uint32_t d = 0; d < kDim; ++d) out[head * kDim + d] /= sum;
  }
  return out;
}

TEST(Entries, rows_attend_to_entries_and_to_the_window_with_one_softmax) {
  for (const AttentionCase& c :
       {AttentionCase{}, AttentionCase{.n_top = 6}, AttentionCase{.n_tokens = 64, .first_slot = 31},
        AttentionCase{.n_tokens = 32, .window = 40, .first_slot = 0}}) {
    const std::vector<float> made = attended(*backend_of("scalar"), c, 64);
    for (uint32_t row = 0; row < c.n_rows; ++row) {
      const std::vector<double> expected = attended_by_formula(c, row);
      for (uint32_t i = 0; i < c.row(); ++i) {
        ASSERT_NEAR(made[row * c.row() + i], expected[i], 1e-5) << c.n_tokens << " row " << row;
      }
    }
  }
}

void expect_same_bits(const AttentionCase& c) {
  const std::vector<float> expected = attended(*backend_of("scalar", 1), c, c.n_rows);
  for (const std::string_view isa : cpu_isa_names()) {
    for (const uint32_t chunk : {1u, 33u}) {
      EXPECT_EQ(attended(*backend_of(isa), c, chunk), expected)
          << isa << " " << name_of(c.type) << " " << c.n_heads << " heads";
    }
  }
}

TEST(Entries, sets_threads_and_chunks_attend_with_the_same_bits) {
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kInt8, KvType::kInt4}) {
    for (const uint32_t n_top : {6u, 36u}) {  // of 36 entries, some fill vectors of 16
      const AttentionCase c{.type = type, .n_top = n_top};
      expect_same_bits(c);
    }
  }
}

// A thread computes a part of 64 query heads when a row is alone.
TEST(Entries, parts_of_many_heads_have_the_bits_of_all_together) {
  for (const KvType type : {KvType::kF32, KvType::kInt8, KvType::kInt4}) {
    expect_same_bits({.type = type, .n_rows = 40, .n_heads = 64});
  }
  // The last rows attend to more than a split.
  expect_same_bits(
      {.type = KvType::kInt8, .n_tokens = 1, .first_slot = 0, .n_rows = 500, .n_heads = 32});
}

}  // namespace
}  // namespace kvik
