#include "backend/layout/attention_plan.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

namespace kvik::cpu {
namespace {

constexpr uint32_t kSplitPages = kSplitTokens / kPageTokens;
constexpr uint32_t kUnlimited = 1000;

// Sequences with one query row each. Pages are identified by numbers and never read.
class Batch {
 public:
  // Adds a row at the last of n_tokens. Pages beyond `pages` get numbers that no other sequence
  // uses.
  void add(uint32_t n_tokens, std::vector<size_t> pages = {}, const std::byte* open = nullptr) {
    const size_t n_pages = (n_tokens + kPageTokens - 1) / kPageTokens;
    std::vector<const std::byte*> table;
    for (const size_t page : pages) table.push_back(address(page));
    while (table.size() < n_pages) table.push_back(address(next_own_++));
    table.resize(n_pages);
    tables_.push_back(std::move(table));
    rows_.push_back({nullptr, nullptr, n_tokens - 1, open});
    slices_.push_back({tables_.back().data(), {&rows_.back(), 1}, true});
  }
  void lose_pages_before(size_t slice, size_t n) {
    std::fill_n(tables_[slice].begin(), n, nullptr);
  }
  AttentionPlan plan(uint32_t window = 0, uint32_t n_unit_rows = kUnlimited) const {
    AttentionPlan plan;
    plan.group(slices_, window, n_unit_rows);
    return plan;
  }
  const std::deque<QueryRow>& rows() const { return rows_; }
  const std::vector<RowSlice>& slices() const { return slices_; }

 private:
  static const std::byte* address(size_t page) {
    return reinterpret_cast<const std::byte*>(page * 4096);
  }

  size_t next_own_ = 1000;
  std::deque<std::vector<const std::byte*>> tables_;
  std::deque<QueryRow> rows_;
  std::vector<RowSlice> slices_;
};

std::vector<size_t> pages_from(size_t first, size_t n) {
  std::vector<size_t> pages(n);
  for (size_t i = 0; i < n; ++i) pages[i] = first + i;
  return pages;
}

TEST(AttentionPlan, sequences_with_own_pages_stand_alone) {
  Batch batch;
  for (const uint32_t n : {1, 40, 600}) batch.add(n);
  const AttentionPlan plan = batch.plan();
  EXPECT_FALSE(plan.shares());
  EXPECT_EQ(plan.units().size(), 4u);  // the third sequence has two splits
}

TEST(AttentionPlan, a_shared_prefix_is_one_unit_in_each_of_its_splits) {
  Batch batch;
  const auto prefix = pages_from(1, 2 * kSplitPages);
  for (int i = 0; i < 5; ++i) batch.add(2 * kSplitTokens + 20, prefix);
  const AttentionPlan plan = batch.plan();
  EXPECT_TRUE(plan.shares());
  ASSERT_EQ(plan.units().size(), 2u + 5u);
  EXPECT_EQ(plan.units()[0].n_rows, 5u);
  EXPECT_EQ(plan.units()[1].n_rows, 5u);
  EXPECT_EQ(plan.units()[2].n_rows, 1u);
}

TEST(AttentionPlan, one_that_ends_early_joins_those_that_see_further) {
  Batch batch;
  const auto prefix = pages_from(1, kSplitPages);
  batch.add(70, prefix);
  batch.add(500, prefix);
  const AttentionPlan plan = batch.plan();
  ASSERT_EQ(plan.units().size(), 1u);
  EXPECT_EQ(plan.units()[0].n_rows, 2u);
  EXPECT_EQ(plan.units()[0].pages, batch.slices()[1].pages);
  EXPECT_EQ(plan.units()[0].n_pages, 16u);
}

TEST(AttentionPlan, one_page_that_differs_keeps_them_apart) {
  Batch batch;
  batch.add(90, {1, 2, 3});
  batch.add(90, {1, 7, 3});
  batch.add(90, {1, 2, 3});
  const AttentionPlan plan = batch.plan();
  ASSERT_EQ(plan.units().size(), 2u);
  EXPECT_EQ(plan.units()[0].n_rows + plan.units()[1].n_rows, 3u);
}

TEST(AttentionPlan, units_are_not_larger_than_asked_for) {
  Batch batch;
  for (int i = 0; i < 10; ++i) batch.add(32, {1});
  const AttentionPlan plan = batch.plan(0, 4);
  for (const SplitUnit& unit : plan.units()) EXPECT_LE(unit.n_rows, 4u);
  EXPECT_EQ(plan.units().size(), 3u);
}

TEST(AttentionPlan, pages_before_the_window_may_differ) {
  Batch batch;
  const auto prefix = pages_from(1, kSplitPages);
  batch.add(505, prefix);
  batch.add(512, prefix);
  batch.lose_pages_before(0, 12);  // a window of 100 begins at token 405, in page 12
  batch.lose_pages_before(1, 10);
  const AttentionPlan plan = batch.plan(100);
  ASSERT_EQ(plan.units().size(), 1u);
  EXPECT_EQ(plan.units()[0].n_rows, 2u);
}

TEST(AttentionPlan, rows_with_open_pages_share_what_lies_before_them) {
  const std::byte open{};
  Batch batch;
  const auto prefix = pages_from(1, kSplitPages);
  for (const uint32_t n_own : {1, 32}) batch.add(kSplitTokens + n_own, prefix, &open);
  const AttentionPlan plan = batch.plan();
  ASSERT_EQ(plan.units().size(), 1u);
  EXPECT_EQ(plan.units()[0].n_rows, 2u);
  EXPECT_EQ(plan.units()[0].n_pages, kSplitPages);
}

TEST(AttentionPlan, rows_within_their_open_pages_see_no_split) {
  const std::byte open{};
  const auto n_splits = [](const QueryRow& row, uint32_t window) {
    const SplitRange splits = visible_splits({&row, 1}, window);
    return splits.end - splits.begin;
  };
  for (const uint32_t position : {0u, 31u}) {
    EXPECT_EQ(n_splits({nullptr, nullptr, position, &open}, 0), 0u);
  }
  EXPECT_EQ(n_splits({nullptr, nullptr, 32, &open}, 0), 1u);
  EXPECT_EQ(n_splits({nullptr, nullptr, 1033, &open}, 10), 0u);
  EXPECT_EQ(n_splits({nullptr, nullptr, 1033, &open}, 11), 1u);
  EXPECT_EQ(n_splits({nullptr, nullptr, 1033, &open}, 600), 2u);
}

TEST(AttentionPlan, every_row_stands_once_in_each_split_that_it_sees_among_equal_pages) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Batch batch;
    const std::byte open{};
    const std::byte* own_page = round % 2 == 0 ? nullptr : &open;
    const uint32_t first_tokens = own_page ? 33 : 1;  // so that each row sees a split
    const size_t n = 1 + random() % 9;
    for (size_t i = 0; i < n; ++i) {
      const auto n_tokens = static_cast<uint32_t>(first_tokens + random() % 1700);
      batch.add(n_tokens, pages_from(1 + 100 * (random() % 2), random() % 60), own_page);
    }
    const uint32_t window = random() % 2 * static_cast<uint32_t>(first_tokens + random() % 800);
    const AttentionPlan plan = batch.plan(window, 3);
    size_t n_placed = 0;
    for (size_t i = 0; i < n; ++i) {
      const RowSlice& slice = batch.slices()[i];
      const SplitRange seen = visible_splits(slice.rows, window);
      for (uint32_t split = seen.begin; split < seen.end; ++split, ++n_placed) {
        const UnitPart part = plan.part(i, split);
        const SplitUnit& unit = plan.units()[part.unit];
        ASSERT_EQ(unit.split, split);
        ASSERT_EQ(plan.rows()[unit.first_row + part.first_row].position, slice.rows[0].position);
        const uint32_t position = slice.rows[0].position;
        const uint32_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
        for (uint32_t t = std::max(first, split * kSplitTokens);
             t < std::min(slice.rows[0].sealed_end(), (split + 1) * kSplitTokens); ++t) {
          ASSERT_EQ(unit.pages[t / kPageTokens], slice.pages[t / kPageTokens]);
        }
      }
    }
    ASSERT_EQ(plan.rows().size(), n_placed);
  }
}

}  // namespace
}  // namespace kvik::cpu
