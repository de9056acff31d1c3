#include "kv/kv_cache.h"

#include <algorithm>

#include "base/check.h"
#include "kv/kv_view.h"

namespace kvik {
namespace {

const SteadyClock kSteadyClock;

}  // namespace

KvCache::KvCache(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
                 KeyFunction key_of)
    : pages_(memory, budget_bytes, std::move(layout), clock, key_of), snapshots_(pages_) {}

KvCache::KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes)
    : KvCache(memory, budget_bytes, KvLayout(page_bytes), kSteadyClock) {}

// --- lookup ---

FoundPrefix KvCache::find(const PrefixQuery& query, FoundPrefix before) const {
  const std::pair now(pages_.index().n_changes(), query.tokens.size());
  if (before.searched_ == now) return before;
  before.set(query, pages_.index().find(query.root, query.tokens, pages_.reader_of(query.tenant)));
  before.searched_ = now;
  return before;
}

FoundPrefix KvCache::look_up(const PrefixQuery& query, FoundPrefix before) {
  FoundPrefix found = find(query, std::move(before));
  visit_needed(found.match_, [&](PageId page, uint32_t) { pages_.note_awaited(page); });
  if (const PrefixNode* head = found.match_.head) {
    for (const auto& page : head->pages) pages_.note_awaited(*page);
  }
  if (const PrefixNode* node = found.match_.snapshot) pages_.note_awaited(node->snapshot.front());
  return found;
}

std::optional<Duration> KvCache::idle_time(const FoundPrefix& found) const {
  CHECK(found.searched_ && found.searched_->first == pages_.index().n_changes());
  if (!found.continues_conversation()) return std::nullopt;
  for (const auto& page : found.match_.last->pages) {
    if (!page || pages_.pool().n_owners(*page) > 0) continue;
    return pages_.now() - pages_.history(*page).last_used;
  }
  return std::nullopt;
}

void KvCache::hold(FoundPrefix& found) {
  CHECK(found.searched_ && found.searched_->first == pages_.index().n_changes());
  visit_needed(found.match_, [&](PageId page, uint32_t) { found.hold(pages_.lease(page)); });
  const PrefixNode* node = found.match_.snapshot;
  // Any sequence that runs next may use the slot of a released state.
  if (!node || pages_.pool().is_reserved(node->snapshot.front())) return;
  // The pages that a leased snapshot depends on cannot be evicted, so they are not available
  // either.
  for (const PageId page : node->snapshot) found.hold(pages_.lease(page));
  if (!found.match_.head) return;
  for (const auto& page : found.match_.head->pages) found.hold(pages_.lease(*page));
}

bool KvCache::open(PageTable& table, const PrefixQuery& query, FoundPrefix& found,
                   uint64_t n_tokens, uint64_t n_spare) {
  CHECK(table.is_empty() && table.n_groups() == layout().n_groups());
  CHECK(query.tokens.size() <= n_tokens);
  table.root_ = query.root;
  found = find(query, std::move(found));
  while (!open_with(table, found.match_, n_tokens, n_spare)) {
    table.clear();
    if (!found.match_.head) return false;
    // The page to copy from is leased and so cannot be evicted for its copy.
    auto match = pages_.index().find(query.root, query.tokens.first(found.n_whole_tokens()),
                                     pages_.reader_of(query.tenant));
    match.miss = MissReason::kEvicted;
    match.expected.reset();
    found.set(query, match);
    found.searched_.reset();  // search again at the next try, when more pages may be available
  }
  return true;
}

// Returns the nodes of a match in the order of their tokens.
void KvCache::build_path(const PrefixIndex::Match& match) {
  path_.resize(match.n_whole);
  const PrefixNode* node = match.last;
  for (uint32_t i = match.n_whole; i > 0; --i, node = node->parent) path_[i - 1] = node;
}

// Returns the whole pages that resuming after a match needs, each with its group.
template <class Visit>
void KvCache::visit_needed(const PrefixIndex::Match& match, const Visit& visit) {
  build_path(match);
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    uint64_t i = layout().rules[g].first_page_needed(match.n_tokens());
    for (; i < path_.size(); ++i) visit(*path_[i]->pages[g], g);
  }
}

bool KvCache::open_with(PageTable& table, const PrefixIndex::Match& match, uint64_t n_tokens,
                        uint64_t n_spare) {
  // Lease the pages to copy from, so that allocation cannot evict them.
  std::vector<PageLease> head, snapshot;
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    const uint64_t n_behind = layout().rules[g].first_page_needed(match.n_tokens());
    table.slide(g, static_cast<uint32_t>(n_behind));
    if (match.head) head.push_back(pages_.lease(*match.head->pages[g]));
  }
  const bool is_open = match.snapshot && layout().has_open_pages();
  if (is_open) {
    for (const PageId page : match.snapshot->snapshot) snapshot.push_back(pages_.lease(page));
  }
  visit_needed(match, [&](PageId page, uint32_t group) {
    table.append(group, pages_.lease(page), pages_.bytes_of(page));
  });
  for (const PrefixNode* node : path_) table.mark_sealed(node->key);
  // Copy before allocating, which may evict the source.
  if (match.snapshot && !is_open && n_missing_for(table, n_tokens) + n_spare <= n_available()) {
    snapshots_.resume_state(table, match);
  }
  if (!grow(table, n_tokens, n_spare)) return false;

  const TimePoint now = pages_.now();
  for (uint32_t i = 0; i < match.n_whole; ++i) {
    for (uint32_t g = 0; g < layout().n_groups(); ++g) {
      if (table.holds(g, i)) pages_.index().touch(table.page(g, i));
    }
    pin(table, i, now);
  }
  if (match.head) copy_head(table, match, head);
  if (is_open) snapshots_.resume_open_page(table, match);
  return true;
}

// Copies the whole page: tokens after the head are overwritten before they are read.
void KvCache::copy_head(PageTable& table, const PrefixIndex::Match& match,
                        const std::vector<PageLease>& pages) {
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    pages_.index().touch(pages[g].id());
    pages_.memory().copy(table.addresses(g)[match.n_whole], pages_.bytes_of(pages[g].id()),
                         layout().page_bytes);
  }
  if (match.n_head < match.head->tokens.size()) forget_newest_token(table, match.n_whole);
}

// Clears what a page has of its newest token, because the sequence has an earlier one.
void KvCache::forget_newest_token(PageTable& table, uint32_t index) {
  const auto& newest = layout().newest_token;
  if (!newest || !table.holds(newest->group, index)) return;
  pages_.memory().clear(table.addresses(newest->group)[index] + newest->offset, newest->n_bytes);
}

uint32_t KvCache::adopt(PageTable& table, std::span<const TokenId> tokens) {
  const SharingMark reader = pages_.mark_of(table.owner.tenant);
  while ((uint64_t{table.n_sealed()} + 1) * kPageTokens <= tokens.size()) {
    const uint32_t index = table.n_sealed();
    const auto own = tokens.subspan(size_t{index} * kPageTokens, kPageTokens);
    const PrefixNode* node =
        pages_.index().find_child(table.root(), table.parent_key(), own, reader);
    if (!node || !node->is_whole()) break;
    for (uint32_t g = 0; g < layout().n_groups(); ++g) {
      if (index < table.n_slid(g)) continue;  // it slid out of the window
      const PageId page = *node->pages[g];
      table.put(g, index, pages_.lease(page), pages_.bytes_of(page));
      pages_.index().touch(page);
    }
    table.mark_sealed(node->key);
    slide(table, uint64_t{table.n_sealed()} * kPageTokens);
  }
  return table.n_sealed() * kPageTokens;
}

void KvCache::append_continuation(const PageTable& table, std::span<const TokenId> tokens,
                                  size_t n_max, std::vector<TokenId>& out) const {
  const auto rest = tokens.subspan(size_t{table.n_sealed()} * kPageTokens);
  if (rest.size() >= kPageTokens) return;  // a full page that could not be shared
  pages_.index().append_continuation(table.root(), table.parent_key(), rest,
                                     pages_.mark_of(table.owner.tenant), n_max, out);
}

bool KvCache::copy_partial_page(PageTable& to, const PageTable& from, uint64_t n_from,
                                uint64_t n_common) {
  const uint32_t index = to.n_sealed();
  CHECK(from.n_sealed() == index && from.last_key() == to.last_key());
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    if (!to.holds(g, index) || !from.holds(g, index)) return false;
  }
  if (layout().has_open_pages()) {
    if (n_from > (uint64_t{index} + 1) * kPageTokens) return false;
    const uint64_t offset = open_page_offset(index, layout().open_page_bytes);
    pages_.memory().copy(to.open_pages() + offset, from.open_pages() + offset,
                         layout().open_page_bytes);
  }
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    pages_.memory().copy(to.addresses(g)[index], from.addresses(g)[index], layout().page_bytes);
  }
  if (n_common < std::min(n_from, (uint64_t{index} + 1) * kPageTokens)) {
    forget_newest_token(to, index);
  }
  return true;
}

// --- allocation ---

bool KvCache::grow(PageTable& table, uint64_t n_tokens, uint64_t n_spare) {
  const uint64_t n = n_missing_for(table, n_tokens) + n_spare;
  // This allocation must succeed: it gets the pages that are held for waiting requests.
  if (n > n_available() && n_spare == 0) pages_.notify_shortage();
  if (n > n_available() || !snapshots_.take_slots(table)) return false;
  fill_up(table);
  return true;
}

uint32_t KvCache::make_room(PageTable& table, uint64_t n_cached, uint32_t n_new) {
  while (n_new > 0) {
    const uint64_t n_pages = pages_for(n_cached + n_new);
    wanted_.assign(layout().n_groups(), n_pages);
    if (n_missing(table) <= n_available()) break;
    const uint64_t fewer = (n_pages - 1) * kPageTokens;
    n_new = fewer > n_cached ? static_cast<uint32_t>(fewer - n_cached) : 0;
  }
  if (n_new > 0) fill_up(table);
  return n_new;
}

// Returns the number of pages that growing to n_tokens takes; wanted_ holds the target per group.
uint64_t KvCache::n_missing_for(const PageTable& table, uint64_t n_tokens) {
  wanted_.assign(layout().n_groups(), pages_for(n_tokens));
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    wanted_[g] = std::min(wanted_[g], table.n_slid(g) + layout().rules[g].pages_at_once(n_tokens));
  }
  return n_missing(table);
}

uint64_t KvCache::n_missing(const PageTable& table) const {
  uint64_t n = 0;
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    n += wanted_[g] - std::min<uint64_t>(wanted_[g], table.n_pages(g));
  }
  return n;
}

void KvCache::fill_up(PageTable& table) {
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    while (table.n_pages(g) < wanted_[g]) {
      PageLease lease = pages_.take(g);
      std::byte* page = pages_.bytes_of(lease.id());
      pages_.memory().clear(page, layout().page_bytes);  // masked tokens must hold finite numbers
      table.append(g, std::move(lease), page);
    }
  }
}

bool KvCache::place(PageTable& table, uint32_t index, const IncomingBytes& bytes) {
  CHECK(layout().n_groups() == 1 && index >= table.n_sealed());
  if (!table.holds(0, index)) return false;
  bytes.place(table.addresses(0)[index]);
  PageHistory& history = pages_.history(table.page(0, index));
  history.is_fetched = history.is_saved = true;
  return true;
}

void KvCache::slide(PageTable& table, uint64_t n_tokens) {
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    const uint64_t first = layout().rules[g].first_page_needed(n_tokens);
    table.slide(g, std::min(static_cast<uint32_t>(first), table.n_pages(g)));
  }
}

void KvCache::shrink(PageTable& table, uint64_t n_tokens) {
  const auto n_pages = static_cast<uint32_t>(pages_for(n_tokens));
  CHECK(n_pages >= table.n_sealed());
  for (uint32_t g = 0; g < layout().n_groups(); ++g) table.cut(g, n_pages);
}

// --- sealing ---

void KvCache::seal(PageTable& table, std::span<const TokenId> tokens, SharingMark known) {
  const uint32_t n_before = table.n_sealed();
  for (size_t end; (end = (size_t{table.n_sealed()} + 1) * kPageTokens) <= tokens.size();) {
    if (!seal_next(table, tokens.first(end), known)) break;
  }
  const uint32_t n_new = table.n_sealed() - n_before;
  if (n_new > 0) snapshots_.keep_prompt_end(table, tokens, n_new);
}

// Returns the table's pages at one index if it holds all of them, otherwise nothing.
std::span<const std::optional<PageId>> KvCache::pages_at(const PageTable& table, uint32_t index) {
  node_pages_.clear();
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    if (!table.holds(g, index)) return {};
    node_pages_.push_back(table.page(g, index));
  }
  return node_pages_;
}

// If another sequence computed the same page meanwhile, the table takes that page and releases its
// own: the bytes are equal. Returns false if nothing more can be shared: the key collides with
// other tokens, or a page before this one was evicted after it slid out of the window.
bool KvCache::seal_next(PageTable& table, std::span<const TokenId> tokens, SharingMark known) {
  const uint32_t index = table.n_sealed();
  const auto pages = pages_at(table, index);
  if (pages.empty()) return false;
  PrefixIndex::TokenPages entry = pages_.rest_of(table, tokens);
  entry.pages = pages;
  entry.known = joined(entry.known, known);
  const PrefixNode* node = pages_.insert(entry);
  if (!node) return false;
  for (uint32_t g = 0; g < layout().n_groups(); ++g) {
    if (!node->pages[g]) continue;
    if (node->pages[g] == pages[g]) {
      pages_.publish(*pages[g]);
    } else {
      table.put(g, index, pages_.lease(*node->pages[g]), pages_.bytes_of(*node->pages[g]));
    }
  }
  table.mark_sealed(node->key);
  if (!table.owner.pins.empty()) pin(table, index, pages_.now());
  return true;
}

void KvCache::close(PageTable& table, std::span<const TokenId> tokens) {
  seal(table, tokens);
  keep_last_page(table, tokens);
  const TimePoint now = pages_.now();
  for (uint32_t i = 0; i <= table.n_sealed() && !table.owner.pins.empty(); ++i) pin(table, i, now);
  table.clear();
  // deferred to the first eviction, this took a quarter of a second for a large cache
  pages_.settle();
}

// Adds the page after the table's sealed pages to the index if it is partly filled.
void KvCache::keep_last_page(PageTable& table, std::span<const TokenId> tokens) {
  const uint32_t index = table.n_sealed();
  PrefixIndex::TokenPages entry = pages_.rest_of(table, tokens);
  if (entry.tokens.empty() || entry.tokens.size() >= kPageTokens) return;
  if (table.is_in_step && layout().has_open_pages()) return;
  const auto pages = pages_at(table, index);
  if (pages.empty()) return;
  std::vector<PageLease> snapshot;
  if (layout().has_open_pages()) {
    snapshot = snapshots_.take_pages();
    if (snapshot.empty()) return;  // without a snapshot the page cannot be resumed from
  }
  entry.pages = pages;
  const PrefixNode* node = pages_.insert(entry);
  entry.pages = {};
  for (uint32_t g = 0; node && g < layout().n_groups(); ++g) {
    if (node->pages[g] == pages[g]) pages_.publish(*pages[g]);
  }
  // A snapshot that another sequence kept holds the same bytes.
  if (snapshot.empty() || !node || !node->snapshot.empty()) return;
  snapshots_.keep_open_page(table, entry, snapshot, tokens.size());
}

// Pins the table's pages at one index that its owner's pins cover.
void KvCache::pin(const PageTable& table, uint32_t index, TimePoint now) {
  for (const Pin& pin : table.owner.pins) {
    if (uint64_t{index} * kPageTokens >= pin.n_tokens) continue;
    for (uint32_t g = 0; g < layout().n_groups(); ++g) {
      if (!table.holds(g, index) || !pages_.index().knows(table.page(g, index))) continue;
      if (index < layout().rules[g].first_page_needed(pin.n_tokens)) continue;
      pages_.index().pin(table.page(g, index), now + pin.ttl, table.owner.tenant);
    }
  }
}

}  // namespace kvik
