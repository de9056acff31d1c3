#include "kv/page_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "kv/open_prefix.h"
#include "kv/plain_memory.h"
#include "support/manual_clock.h"

namespace kvik {
namespace {

using testing::IsEmpty;
using Cells = std::vector<PageCell>;
using Extent = PageMap::Extent;

const PageKey kRoot = root_key("test", "");

std::vector<TokenId> counting(uint32_t n, TokenId first = 0) {
  std::vector<TokenId> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

// A cache of one layer group, and a map of it.
struct Rig {
  explicit Rig(uint32_t n_pages) : cache(memory, n_pages * 64, KvLayout(64), clock), map(cache) {}

  Cells collect(Extent extent = Extent::kChanges, std::vector<const PageTable*> tables = {}) {
    Cells cells;
    map.collect(extent, tables, cells);
    return cells;
  }
  PageTable open(const std::vector<TokenId>& tokens) {
    PageTable table;
    EXPECT_TRUE(open_prefix(cache, table, {kRoot, tokens}, tokens.size()).has_value());
    return table;
  }

  ManualClock clock{TimePoint(std::chrono::seconds(100))};
  PlainMemory memory;
  KvCache cache;
  PageMap map;
};

TEST(PageMap, an_unchanged_cache_reports_nothing) {
  Rig rig(8);
  EXPECT_THAT(rig.collect(Extent::kAll), IsEmpty());
  EXPECT_THAT(rig.collect(), IsEmpty());
}

TEST(PageMap, says_who_computed_a_page_while_it_is_filled_and_after) {
  Rig rig(8);
  const std::vector<TokenId> tokens = counting(kPageTokens + 5);
  PageTable table = rig.open(tokens);
  table.owner.tenant = 77;
  for (const PageCell& cell : rig.collect(Extent::kAll, {&table})) EXPECT_EQ(cell.tenant, 77u);
  rig.cache.close(table, tokens);
  const Cells cells = rig.collect(Extent::kAll);
  EXPECT_EQ(cells.size(), 2u);
  for (const PageCell& cell : cells) EXPECT_EQ(cell.tenant, 77u);
}

TEST(PageMap, reports_a_change_once) {
  Rig rig(8);
  PageTable table = rig.open(counting(40));
  const Cells cells = rig.collect(Extent::kChanges, {&table});
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[0].state, PageState::kLeased);
  EXPECT_EQ(cells[0].n_owners, 1u);
  EXPECT_EQ(cells[0].n_tokens, 0u);
  EXPECT_EQ(cells[0].history.taken, rig.clock.now());
  EXPECT_THAT(rig.collect(Extent::kChanges, {&table}), IsEmpty());
  EXPECT_EQ(rig.collect(Extent::kAll, {&table}), cells);
  table.clear();
}

TEST(PageMap, pages_name_the_page_before_them_also_while_they_are_filled) {
  Rig rig(8);
  PageTable table = rig.open(counting(100));
  const Cells filling = rig.collect(Extent::kChanges, {&table});
  ASSERT_EQ(filling.size(), 4u);
  EXPECT_EQ(filling[0].parent, std::nullopt);
  for (uint32_t i = 1; i < 4; ++i) EXPECT_EQ(filling[i].parent, table.page(0, i - 1));

  rig.cache.seal(table, counting(70));  // two of them
  const Cells sealed = rig.collect(Extent::kAll, {&table});
  EXPECT_EQ(sealed[1].state, PageState::kSealed);
  EXPECT_EQ(sealed[1].n_tokens, kPageTokens);
  EXPECT_EQ(sealed[1].parent, table.page(0, 0));
  EXPECT_EQ(sealed[2].state, PageState::kLeased);
  EXPECT_EQ(sealed[2].parent, table.page(0, 1));
  table.clear();
}

TEST(PageMap, two_sequences_of_one_prefix_own_its_pages_together) {
  Rig rig(8);
  PageTable first = rig.open(counting(70));
  rig.cache.seal(first, counting(70));
  rig.collect(Extent::kChanges, {&first});
  rig.clock.advance(std::chrono::seconds(5));
  PageTable second = rig.open(counting(70));
  const Cells changed = rig.collect(Extent::kChanges, {&first, &second});
  ASSERT_EQ(changed.size(), 3u);  // two shared pages and the second sequence's own last one
  EXPECT_EQ(changed[0].n_owners, 2u);
  EXPECT_EQ(changed[0].history.last_used - changed[0].history.taken, std::chrono::seconds(5));
  EXPECT_EQ(changed[2].n_owners, 1u);
  EXPECT_EQ(changed[2].parent, first.page(0, 1));
  first.clear();
  EXPECT_EQ(rig.collect(Extent::kChanges, {&second})[0].n_owners, 1u);
  second.clear();
}

TEST(PageMap, the_partly_filled_end_of_a_text_says_how_many_tokens_it_has) {
  Rig rig(8);
  PageTable table = rig.open(counting(40));
  rig.cache.close(table, counting(40));
  const Cells cells = rig.collect(Extent::kAll);
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[1].state, PageState::kCached);
  EXPECT_EQ(cells[1].n_tokens, 8u);
}

TEST(PageMap, a_page_that_was_saved_says_so) {
  Rig rig(8);
  PageTable table = rig.open(counting(40));
  rig.cache.close(table, counting(40));
  rig.collect();
  rig.cache.pages().note_saved(PageId{0});
  const Cells cells = rig.collect();
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_TRUE(cells[0].history.is_saved);
  EXPECT_FALSE(cells[0].history.is_fetched);
}

TEST(PageMap, a_reused_page_loses_its_history) {
  Rig rig(2);
  PageTable table = rig.open(counting(40));
  rig.cache.close(table, counting(40));
  rig.cache.pages().note_saved(PageId{0});
  rig.clock.advance(std::chrono::seconds(5));
  PageTable other = rig.open(counting(40, 1000));  // evicts both
  for (const PageCell& cell : rig.collect(Extent::kAll, {&other})) {
    EXPECT_EQ(cell.state, PageState::kLeased);
    EXPECT_FALSE(cell.history.is_saved);
    EXPECT_EQ(cell.history.taken, rig.clock.now());
  }
  other.clear();
}

// Accumulated changes give the same result as a complete collection.
TEST(PageMap, changes_add_up_to_the_whole) {
  Rig rig(24);
  PageMap whole(rig.cache);
  std::map<PageId, PageCell> known;
  std::mt19937 random(7);
  std::vector<std::pair<PageTable, std::vector<TokenId>>> running;
  for (int round = 0; round < 400; ++round) {
    if (running.size() < 3 && random() % 2 == 0) {
      std::vector<TokenId> tokens = counting(20 + random() % 150, random() % 2 * 1000);
      PageTable table;
      if (open_prefix(rig.cache, table, {kRoot, tokens}, tokens.size()))
        running.emplace_back(std::move(table), std::move(tokens));
    } else if (!running.empty()) {
      auto& [table, tokens] = running[random() % running.size()];
      rig.cache.seal(table, std::span(tokens).first(random() % tokens.size()));
      if (random() % 3 == 0) {
        rig.cache.close(table, tokens);
        std::erase_if(running, [](const auto& r) { return r.first.is_empty(); });
      }
    }
    if (random() % 3 != 0) continue;
    std::vector<const PageTable*> tables;
    for (const auto& [table, tokens] : running) tables.push_back(&table);
    for (const PageCell& cell : rig.collect(Extent::kChanges, tables)) known[cell.page] = cell;
    std::erase_if(known, [](const auto& k) { return k.second.state == PageState::kFree; });
    Cells all;
    whole.collect(Extent::kAll, tables, all);
    ASSERT_EQ(all.size(), known.size()) << "round " << round;
    for (const PageCell& cell : all) {
      // The page before a page that is being filled may have been replaced by another one.
      PageCell mine = known.at(cell.page);
      if (cell.state == PageState::kLeased) mine.parent = cell.parent;
      EXPECT_EQ(mine, cell) << "round " << round;
    }
  }
  for (auto& [table, tokens] : running) table.clear();
}

}  // namespace
}  // namespace kvik
