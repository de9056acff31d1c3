#include "backend/cpu/attention/selected_pages.h"

#include <algorithm>

#include "backend/cpu/attention/token_copy.h"
#include "backend/cpu/scratch.h"
#include "backend/layout/kv_block.h"
#include "base/check.h"
#include "tensor/page_count.h"

namespace kvik::cpu {
namespace {

constexpr size_t kFewRows = 8;
constexpr uint32_t kItemTokens = 256;  // tokens per item of work

// Numbers of tokens in a row's blocks: all of them, and those in pages other than the row's own,
// which are pages as they are stored unless there are no open pages.
struct TokenCounts {
  uint32_t n = 0, n_sealed = 0;
};

// Blocks lie in a page each, and only the row's own block may be incomplete.
TokenCounts count_tokens(const SelectingRow& row, uint32_t n_top, uint32_t block_tokens) {
  const uint32_t* end = std::lower_bound(row.lists, row.lists + n_top, SelectedTokens::kNoBlock);
  const auto n_blocks = static_cast<uint32_t>(end - row.lists);
  CHECK(n_blocks > 0);
  const uint32_t n_of_last = std::min(block_tokens, row.position + 1 - end[-1] * block_tokens);
  const uint32_t n = (n_blocks - 1) * block_tokens + n_of_last;
  if (row.run->open.empty()) return {n, n};
  const uint32_t first_open = row.position / kPageTokens * (kPageTokens / block_tokens);
  const auto n_before = std::lower_bound(row.lists, end, first_open) - row.lists;
  return {n, static_cast<uint32_t>(n_before) * block_tokens};
}

}  // namespace

size_t SelectedPages::n_rows_max() const { return std::max<size_t>(kFewRows, pool_.n_threads()); }

uint64_t SelectedPages::scratch_bytes(const HeadsUse& use) const {
  if (use.n_top == 0) return 0;
  const KvBlockLayout layout = layout_of(use.kv);
  return n_rows_max() * (pages_for(size_t{use.n_top} * use.block_tokens) * layout.head_bytes() +
                         layout.open_layout().head_bytes());
}

void SelectedPages::reserve(const HeadsUse& use) {
  if (use.n_top == 0) return;
  const KvBlockLayout layout = layout_of(use.kv);
  const size_t n_pages = pages_for(size_t{use.n_top} * use.block_tokens);
  grow(pages_, n_rows_max() * n_pages * layout.head_bytes(), memory_);
  grow(open_, n_rows_max() * layout.open_layout().head_bytes(), memory_);
  addresses_.reserve(n_rows_max() * n_pages);
  open_addresses_.reserve(n_rows_max());
  runs_.reserve(n_rows_max());
  rows_.reserve(n_rows_max());
  n_tokens_.reserve(n_rows_max());
}

void SelectedPages::gather(const KvTarget& kv, const SelectedTokens& selected,
                           std::span<const SelectingRow> rows) {
  CHECK(kv.geometry.latent_dim != 0 && kv.geometry.n_kv_heads == 1 && selected.n_lists == 1);
  CHECK(kPageTokens % selected.block_tokens == 0);
  CHECK(!rows.empty() && rows.size() <= n_rows_max());
  geometry_ = kv.geometry;
  geometry_.n_layers = 1;
  block_tokens_ = selected.block_tokens;
  reserve({geometry_, 1, selected.n_top, block_tokens_});
  const KvBlockLayout layout = layout_of(geometry_);
  const uint32_t n_most = selected.n_top * block_tokens_;
  const size_t n_pages = pages_for(n_most);
  const size_t open_bytes = layout.open_layout().head_bytes();
  addresses_.clear();
  open_addresses_.clear();
  runs_.clear();
  rows_.clear();
  n_tokens_.clear();
  for (size_t i = 0; i < rows.size() * n_pages; ++i) {
    addresses_.push_back(pages_.data() + i * layout.head_bytes());
  }
  for (size_t i = 0; i < rows.size(); ++i) open_addresses_.push_back(open_.data() + i * open_bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    const SelectingRow& row = rows[i];
    const auto [n, n_sealed] = count_tokens(row, selected.n_top, block_tokens_);
    const uint32_t n_open = n - n_sealed;
    // The row's position among its tokens: in the open page if there are tokens in it.
    const uint32_t position =
        n_open > 0 ? static_cast<uint32_t>(pages_for(n_sealed)) * kPageTokens + n_open - 1
                   : n_sealed - 1;
    runs_.push_back({.pages = std::span(addresses_).subspan(i * n_pages, n_pages),
                     .first_position = position,
                     .first_row = row.row,
                     .n_rows = 1,
                     .open = std::span(open_addresses_).subspan(i, n_open > 0 ? 1 : 0)});
    rows_.push_back({.n_tokens = n_sealed});
    n_tokens_.push_back(n);
  }
  const uint32_t n_items = (n_most + kItemTokens - 1) / kItemTokens;
  pool_.run(rows.size() * n_items, [&](size_t item, uint32_t) {
    const auto begin = static_cast<uint32_t>(item % n_items) * kItemTokens;
    copy_tokens(kv, rows[item / n_items], item / n_items, begin,
                std::min(n_tokens_[item / n_items], begin + kItemTokens));
  });
}

// Copies tokens [begin, end) of a row's blocks.
void SelectedPages::copy_tokens(const KvTarget& kv, const SelectingRow& row, size_t index,
                                uint32_t begin, uint32_t end) const {
  const KvBlockLayout layout = layout_of(geometry_);
  const TokenLayout sealed = token_layout(layout);
  const TokenLayout open = token_layout(layout.open_layout());
  const uint32_t n_sealed = rows_[index].n_tokens;
  const KvRun& to = runs_[index];
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t token = row.lists[i / block_tokens_] * block_tokens_ + i % block_tokens_;
    const uint32_t in_page = token % kPageTokens;
    if (i < n_sealed) {
      copy_token(sealed, row.run->pages[token / kPageTokens] + block_offset(kv, 0), in_page,
                 to.pages[i / kPageTokens], i % kPageTokens);
    } else {
      copy_token(open, row.run->open[open_index(*row.run, token)] + open_block_offset(kv, 0),
                 in_page, to.open[0], i - n_sealed);
    }
  }
}

}  // namespace kvik::cpu
