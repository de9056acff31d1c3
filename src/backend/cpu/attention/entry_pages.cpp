#include "backend/cpu/attention/entry_pages.h"

#include <algorithm>

#include "backend/cpu/attention/token_copy.h"
#include "backend/cpu/scratch.h"
#include "base/check.h"
#include "tensor/page_count.h"

namespace kvik::cpu {
namespace {

constexpr size_t kRowsAtOnce = 8;

}  // namespace

size_t EntryPages::n_rows_max() const { return std::max<size_t>(kRowsAtOnce, pool_.n_threads()); }

uint64_t EntryPages::scratch_bytes(const HeadsUse& use) const {
  return n_rows_max() * pages_for(use.n_copied) * layout_of(use.kv).head_bytes();
}

void EntryPages::reserve(const HeadsUse& use) {
  grow(pages_, scratch_bytes(use), memory_);
  addresses_.reserve(n_rows_max() * pages_for(use.n_copied));
  runs_.reserve(n_rows_max());
}

void EntryPages::gather(const KvTarget& kv, const EntryTarget& entries,
                        std::span<const EntryRow> rows) {
  CHECK(kv.geometry.latent_dim != 0 && kv.geometry.n_kv_heads == 1);
  CHECK(!rows.empty() && rows.size() <= n_rows_max());
  geometry_ = kv.geometry;
  geometry_.n_layers = 1;
  uint32_t n_most = 0;
  for (const EntryRow& row : rows) n_most = std::max(n_most, row.n_copied());
  reserve({.kv = geometry_, .n_heads = 1, .n_copied = n_most});
  const size_t n_pages = pages_for(n_most);
  const size_t page_bytes = layout_of(geometry_).head_bytes();
  addresses_.clear();
  runs_.clear();
  for (size_t i = 0; i < rows.size() * n_pages; ++i) {
    addresses_.push_back(pages_.data() + i * page_bytes);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i].run->open.empty());
    runs_.push_back({.pages = std::span(addresses_).subspan(i * n_pages, n_pages),
                     .first_position = rows[i].n_copied() - 1,
                     .first_row = rows[i].row,
                     .n_rows = 1});
  }
  pool_.run(rows.size(), [&](size_t i, uint32_t) { copy(kv, entries, rows[i], runs_[i]); });
}

void EntryPages::copy(const KvTarget& kv, const EntryTarget& entries, const EntryRow& row,
                      const KvRun& to) const {
  const TokenLayout layout = token_layout(layout_of(geometry_));
  const size_t entry_offset = block_offset(entries.kv, 0);
  const size_t offset = block_offset(kv, 0);
  uint32_t at = 0;
  const auto add = [&](const std::byte* block, uint32_t token) {
    copy_token(layout, block, token, to.pages[at / kPageTokens], at % kPageTokens);
    ++at;
  };
  for (uint32_t i = 0; i < row.n_entries; ++i) {
    const uint32_t entry = row.list ? row.list[i] : i;
    add(row.entry_run->pages[entries.last_token(entry) / kPageTokens] + entry_offset,
        entries.slot(entry));
  }
  for (uint32_t token = row.position + 1 - row.n_window; token <= row.position; ++token) {
    add(row.run->pages[token / kPageTokens] + offset, token % kPageTokens);
  }
}

}  // namespace kvik::cpu
