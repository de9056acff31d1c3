#include "backend/cpu/attention/selected_tables.h"

#include <algorithm>

#include "backend/layout/kv_block.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

constexpr size_t kLeastRows = 8;
// Pages in all tables, unless those of a few rows are more. They bound the memory of the tables.
constexpr size_t kTablePages = size_t{1} << 15;

// Returns the number of pages that a block may lie in.
uint32_t pages_of_block(uint32_t block_tokens) {
  if (block_tokens % kPageTokens == 0) return block_tokens / kPageTokens;
  if (kPageTokens % block_tokens == 0) return 1;
  return block_tokens / kPageTokens + 2;
}

size_t table_pages(const HeadsUse& use) {
  return size_t{use.n_top} * pages_of_block(use.block_tokens);
}

// Returns the bits of tokens [begin, end) of a page.
uint32_t bits_between(uint32_t begin, uint32_t end) {
  return (~uint32_t{0} >> (kPageTokens - (end - begin))) << begin;
}

}  // namespace

size_t SelectedTables::n_rows_max(const HeadsUse& use) const {
  const size_t of_a_row = std::max<size_t>(1, table_pages(use) * use.kv.n_kv_heads);
  return std::max({kLeastRows, size_t{pool_.n_threads()}, kTablePages / of_a_row});
}

uint64_t SelectedTables::scratch_bytes(const HeadsUse& use) const {
  constexpr size_t kPageBytes = sizeof(std::byte*) + sizeof(uint32_t);
  constexpr size_t kTableBytes = sizeof(std::byte*) + sizeof(KvRun) + sizeof(SelectedRow);
  return n_rows_max(use) * use.kv.n_kv_heads * (table_pages(use) * kPageBytes + kTableBytes);
}

void SelectedTables::reserve(const HeadsUse& use) {
  const size_t n_tables = n_rows_max(use) * use.kv.n_kv_heads;
  pages_.reserve(n_tables * table_pages(use));
  masks_.reserve(n_tables * table_pages(use));
  open_pages_.reserve(n_tables);
  runs_.reserve(n_tables);
  rows_.reserve(n_tables);
}

void SelectedTables::list(const KvTarget& kv, const SelectedTokens& selected, uint32_t window,
                          std::span<const SelectingRow> rows) {
  const uint32_t n_heads = kv.geometry.n_kv_heads;
  CHECK(kv.geometry.latent_dim == 0 && selected.block_tokens > 0);
  CHECK(selected.n_lists == 1 || selected.n_lists == n_heads);
  geometry_ = kv.geometry;
  geometry_.n_layers = 1;
  geometry_.n_kv_heads = 1;
  n_pages_max_ = table_pages({.kv = kv.geometry,
                              .n_heads = n_heads,
                              .n_top = selected.n_top,
                              .block_tokens = selected.block_tokens});
  const size_t n_tables = rows.size() * n_heads;
  pages_.resize(n_tables * n_pages_max_);
  masks_.resize(n_tables * n_pages_max_);
  open_pages_.resize(n_tables);
  runs_.resize(n_tables);
  rows_.resize(n_tables);
  const Call call{kv, selected, window};
  pool_.run(rows.size(), [&](size_t i, uint32_t) {
    for (uint32_t head = 0; head < n_heads; ++head) fill(call, rows[i], i * n_heads + head);
  });
}

// Lists the pages with selected tokens. If the last one is the row's own page, the row has its
// place in it, else the last place of the last page.
void SelectedTables::fill(const Call& call, const SelectingRow& row, size_t table) {
  const auto head = static_cast<uint32_t>(table % call.kv.geometry.n_kv_heads);
  const SelectedTokens& selected = call.selected;
  const uint32_t end = row.position + 1;
  const uint32_t begin = end - n_visible(row.position, call.window);
  const uint32_t own_page = row.position / kPageTokens;
  const uint32_t* list = row.lists + (selected.n_lists == 1 ? 0 : head) * size_t{selected.n_top};
  const size_t offset = block_offset(call.kv, head);
  std::byte** pages = &pages_[table * n_pages_max_];
  uint32_t* masks = &masks_[table * n_pages_max_];

  uint32_t n = 0;
  uint32_t last = UINT32_MAX;
  for (uint32_t i = 0; i < selected.n_top && list[i] != SelectedTokens::kNoBlock; ++i) {
    const uint64_t first = uint64_t{list[i]} * selected.block_tokens;
    const auto block_end =
        static_cast<uint32_t>(std::min<uint64_t>(first + selected.block_tokens, end));
    for (uint32_t t = std::max(static_cast<uint32_t>(first), begin); t < block_end;) {
      const uint32_t page = t / kPageTokens;
      const uint32_t next = std::min(block_end, (page + 1) * kPageTokens);
      if (page != last) {
        pages[n] = row.run->pages[page] + offset;
        masks[n++] = 0;
        last = page;
      }
      masks[n - 1] |= bits_between(t % kPageTokens, t % kPageTokens + next - t);
      t = next;
    }
  }
  CHECK(n > 0);

  const bool has_own = last == own_page;
  const bool is_open = has_own && !row.run->open.empty();
  const uint32_t position =
      (n - 1) * kPageTokens + (has_own ? row.position : kPageTokens - 1) % kPageTokens;
  if (is_open) {
    open_pages_[table] =
        row.run->open[open_index(*row.run, row.position)] + open_block_offset(call.kv, head);
  }
  runs_[table] = {.pages = {pages, n},
                  .first_position = position,
                  .first_row = row.row,
                  .n_rows = 1,
                  .open = std::span(open_pages_).subspan(table, is_open ? 1 : 0)};
  const uint32_t of_last = bits_between(0, position % kPageTokens + 1);
  const bool has_gaps = masks[n - 1] != of_last ||
                        std::any_of(masks, masks + n - 1, [](uint32_t mask) { return ~mask != 0; });
  rows_[table] = {.masks = has_gaps ? masks : nullptr, .kv_head = head};
}

}  // namespace kvik::cpu
