#include "backend/cpu/attention/entry_pages.h"

#include <algorithm>

#include "backend/cpu/attention/token_copy.h"
#include "backend/cpu/scratch.h"
#include "base/check.h"
#include "tensor/page_count.h"

namespace kvik::cpu {
namespace {

constexpr size_t kRowsAtOnce = 8;
constexpr uint32_t kCopiesOfItem = 128;  // tokens and entries per item of work

// Is always inlined, because GCC 12 otherwise removes calls of functions that only prefetch.
[[gnu::always_inline]] inline void prefetch(const std::byte* p, size_t n_bytes) {
  for (size_t line = 0; line < n_bytes; line += 64) __builtin_prefetch(p + line);
}

// Returns the number of tokens from one on to the end of its vector, at most n.
uint32_t n_of_vector(uint32_t token, uint32_t n) {
  return std::min(n, kTokenLanes - token % kTokenLanes);
}

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
  const Call call{kv, entries};
  const uint32_t n_items = (n_most + kCopiesOfItem - 1) / kCopiesOfItem;
  pool_.run(rows.size() * n_items, [&](size_t item, uint32_t) {
    const EntryRow& row = rows[item / n_items];
    const auto begin = static_cast<uint32_t>(item % n_items) * kCopiesOfItem;
    const uint32_t end = std::min(row.n_copied(), begin + kCopiesOfItem);
    copy_entries(call, row, runs_[item / n_items], {begin, std::min(end, row.n_entries)});
    copy_window(call, row, runs_[item / n_items], {std::max(begin, row.n_entries), end});
  });
}

void EntryPages::copy_entries(const Call& call, const EntryRow& row, const KvRun& to,
                              TokenRange range) const {
  const EntryTarget& from = call.entries;
  const TokenLayout layout = token_layout(layout_of(geometry_));
  const size_t offset = block_offset(from.kv, 0);
  const auto slot_of = [&](uint32_t at) {
    const uint32_t entry = row.list ? row.list[at] : at;
    return row.entry_run->pages[from.last_token(entry) / kPageTokens] + offset +
           from.slot(entry) * layout.slot_bytes();
  };
  const std::byte* slots[kTokenLanes];
  for (uint32_t at = range.begin; at < range.end;) {
    const uint32_t n = n_of_vector(at, range.end - at);
    for (uint32_t i = 0; i < n; ++i) slots[i] = slot_of(at + i);
    // The processor cannot foresee which entries were selected.
    const uint32_t n_ahead = std::min(kTokenLanes, range.end - at - n);
    for (uint32_t i = 0; i < n_ahead; ++i) prefetch(slot_of(at + n + i), layout.slot_bytes());
    unpack_tokens(layout, {slots, n}, to.pages[at / kPageTokens], at % kPageTokens);
    at += n;
  }
}

void EntryPages::copy_window(const Call& call, const EntryRow& row, const KvRun& to,
                             TokenRange range) const {
  const TokenLayout layout = token_layout(layout_of(geometry_));
  const size_t offset = block_offset(call.kv, 0);
  const uint32_t first = row.position + 1 - row.n_window;
  for (uint32_t at = range.begin; at < range.end;) {
    const uint32_t token = first + at - row.n_entries;
    const uint32_t n = n_of_vector(token, n_of_vector(at, range.end - at));
    copy_tokens(layout, row.run->pages[token / kPageTokens] + offset, token % kPageTokens, n,
                to.pages[at / kPageTokens], at % kPageTokens);
    at += n;
  }
}

}  // namespace kvik::cpu
