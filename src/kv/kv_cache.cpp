#include "kv/kv_cache.h"

#include <algorithm>

#include "base/check.h"
#include "kv/kv_view.h"

namespace kvik {
namespace {

const SteadyClock kSteadyClock;

uint32_t n_pages_of_states(const KvLayout& layout) {
  return layout.has_state() ? layout.n_states * layout.n_state_pages() : 0;
}

PrefixIndex::Resume resume_of(const KvLayout& layout) {
  CHECK(!layout.has_state() || !layout.has_open_pages());
  if (layout.has_state()) return PrefixIndex::Resume::kAtSnapshots;
  return layout.has_open_pages() ? PrefixIndex::Resume::kAtOpenPages
                                 : PrefixIndex::Resume::kAnywhere;
}

}  // namespace

KvCache::KvCache(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
                 KeyFunction key_of)
    : memory_(memory),
      clock_(clock),
      layout_(std::move(layout)),
      pool_(static_cast<uint32_t>(budget_bytes / layout_.page_bytes) + n_pages_of_states(layout_),
            layout_.n_groups() + (layout_.has_snapshots() ? 1 : 0), n_pages_of_states(layout_)),
      index_(pool_.n_pages(), layout_.rules, key_of, resume_of(layout_),
             n_pages_of_states(layout_)),
      stories_(pool_.n_pages()),
      buffer_(memory.allocate(pool_.n_pages() * layout_.page_bytes)),
      states_(pool_, layout_, buffer_.data()),
      open_slots_(memory, layout_) {
  CHECK(budget_bytes / layout_.page_bytes + n_pages_of_states(layout_) <= UINT32_MAX);
}

KvCache::KvCache(Memory& memory, uint64_t budget_bytes, size_t page_bytes)
    : KvCache(memory, budget_bytes, KvLayout(page_bytes), kSteadyClock) {}

// --- finding ---

FoundPrefix KvCache::find(const PrefixQuery& query, FoundPrefix before) const {
  const std::pair now(index_.n_changes(), query.tokens.size());
  if (before.searched_ == now) return before;
  before.set(query, index_.find(query.root, query.tokens, reader_of(query.tenant)));
  before.searched_ = now;
  return before;
}

FoundPrefix KvCache::look_up(const PrefixQuery& query, FoundPrefix before) {
  FoundPrefix found = find(query, std::move(before));
  visit_needed(found.match_, [&](PageId page, uint32_t) { index_.note_awaited(page); });
  if (const PrefixNode* head = found.match_.head) {
    for (const auto& page : head->pages) index_.note_awaited(*page);
  }
  if (const PrefixNode* node = found.match_.snapshot) index_.note_awaited(node->snapshot.front());
  return found;
}

void KvCache::hold(FoundPrefix& found) {
  CHECK(found.searched_ && found.searched_->first == index_.n_changes());
  visit_needed(found.match_, [&](PageId page, uint32_t) { found.hold(lease(page)); });
  const PrefixNode* node = found.match_.snapshot;
  // A state's slot is whoever's who runs next.
  if (!node || pool_.is_apart(node->snapshot.front())) return;
  // The pages that a held snapshot needs cannot be evicted: they are no longer available either.
  for (const PageId page : node->snapshot) found.hold(lease(page));
  if (!found.match_.head) return;
  for (const auto& page : found.match_.head->pages) found.hold(lease(*page));
}

bool KvCache::open(PageTable& table, const PrefixQuery& query, FoundPrefix& found,
                   uint64_t n_tokens, uint64_t n_spare) {
  CHECK(table.is_empty() && table.n_groups() == layout_.n_groups());
  CHECK(query.tokens.size() <= n_tokens);
  found = find(query, std::move(found));
  while (!open_with(table, found.match_, n_tokens, n_spare)) {
    table.clear();
    if (!found.match_.head) return false;
    // The page to copy from stands in the way of its copy.
    auto match = index_.find(query.root, query.tokens.first(found.n_whole_tokens()),
                             reader_of(query.tenant));
    match.miss = MissReason::kEvicted;
    match.expected.reset();
    found.set(query, match);
    found.searched_.reset();  // there may be more room at the next try
  }
  return true;
}

// The nodes of a match in the order of their tokens.
void KvCache::lay_path(const PrefixIndex::Match& match) {
  path_.resize(match.n_whole);
  const PrefixNode* node = match.last;
  for (uint32_t i = match.n_whole; i > 0; --i, node = node->parent) path_[i - 1] = node;
}

// The whole pages that going on behind a match needs, each with its group.
template <class Visit>
void KvCache::visit_needed(const PrefixIndex::Match& match, const Visit& visit) {
  lay_path(match);
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    uint64_t i = layout_.rules[g].first_page_needed(match.n_tokens());
    for (; i < path_.size(); ++i) visit(*path_[i]->pages[g], g);
  }
}

bool KvCache::open_with(PageTable& table, const PrefixIndex::Match& match, uint64_t n_tokens,
                        uint64_t n_spare) {
  // The pages to copy from are held, so that making room cannot take them.
  std::vector<PageLease> head, snapshot;
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    const uint64_t n_behind = layout_.rules[g].first_page_needed(match.n_tokens());
    table.slide(g, static_cast<uint32_t>(n_behind));
    if (match.head) head.push_back(lease(*match.head->pages[g]));
  }
  const bool is_open = match.snapshot && layout_.has_open_pages();
  if (is_open) {
    for (const PageId page : match.snapshot->snapshot) snapshot.push_back(lease(page));
  }
  visit_needed(
      match, [&](PageId page, uint32_t group) { table.append(group, lease(page), address(page)); });
  for (const PrefixNode* node : path_) table.mark_sealed(node->key);
  // Copied before room is made, which may take it.
  if (match.snapshot && !is_open && n_missing_for(table, n_tokens) + n_spare <= n_available()) {
    resume_state(table, match);
  }
  if (!grow(table, n_tokens, n_spare)) return false;

  const TimePoint now = clock_.now();
  for (uint32_t i = 0; i < match.n_whole; ++i) {
    for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
      if (table.holds(g, i)) index_.touch(table.page(g, i));
    }
    pin(table, i, now);
  }
  if (match.head) copy_head(table, match.n_whole, head);
  if (is_open) {
    const uint64_t offset = open_page_offset(match.n_whole, layout_.open_page_bytes);
    copy_from(*match.snapshot, table.open_pages() + offset, layout_.open_page_bytes);
    pin_snapshot(table, *match.snapshot, match.n_tokens());
  }
  return true;
}

// The whole page goes along: tokens behind the head are written before anyone reads them.
void KvCache::copy_head(PageTable& table, uint32_t index, const std::vector<PageLease>& pages) {
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    index_.touch(pages[g].id());
    memory_.copy(table.addresses(g)[index], address(pages[g].id()), layout_.page_bytes);
  }
}

uint32_t KvCache::adopt(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  const KnownBy reader = mark_of(table.owner.tenant);
  while ((uint64_t{table.n_sealed()} + 1) * kPageTokens <= tokens.size()) {
    const uint32_t index = table.n_sealed();
    const auto own = tokens.subspan(size_t{index} * kPageTokens, kPageTokens);
    const PrefixNode* node = index_.find_child(root, table.last_key().value_or(root), own, reader);
    if (!node || !node->is_whole()) break;
    for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
      if (index < table.n_slid(g)) continue;  // nobody looks at it any more
      const PageId page = *node->pages[g];
      table.put(g, index, lease(page), address(page));
      index_.touch(page);
    }
    table.mark_sealed(node->key);
    slide(table, uint64_t{table.n_sealed()} * kPageTokens);
  }
  return table.n_sealed() * kPageTokens;
}

void KvCache::continue_behind(const PageTable& table, const PageKey& root,
                              std::span<const TokenId> tokens, size_t n_most,
                              std::vector<TokenId>& out) const {
  const auto rest = tokens.subspan(size_t{table.n_sealed()} * kPageTokens);
  if (rest.size() >= kPageTokens) return;  // a page that could not be shared
  index_.continue_behind(root, table.last_key().value_or(root), rest, mark_of(table.owner.tenant),
                         n_most, out);
}

bool KvCache::copy_filling_page(PageTable& to, const PageTable& from, uint64_t n_from) {
  const uint32_t index = to.n_sealed();
  CHECK(from.n_sealed() == index && from.last_key() == to.last_key());
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    if (!to.holds(g, index) || !from.holds(g, index)) return false;
  }
  if (layout_.has_open_pages()) {
    if (n_from > (uint64_t{index} + 1) * kPageTokens) return false;
    const uint64_t offset = open_page_offset(index, layout_.open_page_bytes);
    memory_.copy(to.open_pages() + offset, from.open_pages() + offset, layout_.open_page_bytes);
  }
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    memory_.copy(to.addresses(g)[index], from.addresses(g)[index], layout_.page_bytes);
  }
  return true;
}

// --- making room ---

bool KvCache::grow(PageTable& table, uint64_t n_tokens, uint64_t n_spare) {
  const uint64_t n = n_missing_for(table, n_tokens) + n_spare;
  // Who must have them gets what is held for later.
  if (n > n_available() && n_spare == 0 && sink_) sink_->on_shortage();
  if (n > n_available() || !take_state(table) || !take_open_pages(table)) return false;
  fill_up(table);
  return true;
}

// False where the table lacks a slot and all are in use.
bool KvCache::take_open_pages(PageTable& table) {
  if (!layout_.has_open_pages() || table.open_pages_) return true;
  auto slot = open_slots_.take();
  if (!slot) return false;
  table.open_pages_ = std::move(*slot);
  return true;
}

uint32_t KvCache::make_room(PageTable& table, uint64_t n_cached, uint32_t n_new) {
  while (n_new > 0) {
    const uint64_t n_pages = pages_for(n_cached + n_new);
    wanted_.assign(layout_.n_groups(), n_pages);
    if (n_missing(table) <= n_available()) break;
    const uint64_t fewer = (n_pages - 1) * kPageTokens;
    n_new = fewer > n_cached ? static_cast<uint32_t>(fewer - n_cached) : 0;
  }
  if (n_new > 0) fill_up(table);
  return n_new;
}

// How many pages growing to n_tokens takes; wanted_ says where to.
uint64_t KvCache::n_missing_for(const PageTable& table, uint64_t n_tokens) {
  wanted_.assign(layout_.n_groups(), pages_for(n_tokens));
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    wanted_[g] = std::min(wanted_[g], table.n_slid(g) + layout_.rules[g].pages_at_once(n_tokens));
  }
  return n_missing(table);
}

uint64_t KvCache::n_missing(const PageTable& table) const {
  uint64_t n = 0;
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    n += wanted_[g] - std::min<uint64_t>(wanted_[g], table.n_pages(g));
  }
  return n;
}

void KvCache::fill_up(PageTable& table) {
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    while (table.n_pages(g) < wanted_[g]) {
      PageLease lease = take(g);
      std::byte* page = address(lease.id());
      memory_.clear(page, layout_.page_bytes);  // masked tokens must hold finite numbers
      table.append(g, std::move(lease), page);
    }
  }
}

PageLease KvCache::lease(PageId id) {
  PageLease lease = pool_.lease(id);
  index_.set_in_use(id);
  stories_[static_cast<uint32_t>(id)].last_used = clock_.now();
  return lease;
}

PageLease KvCache::take(uint32_t group) {
  while (pool_.n_free() == 0) evict_one();
  auto lease = pool_.take(group);
  CHECK(lease.has_value());
  const TimePoint now = clock_.now();
  stories_[static_cast<uint32_t>(lease->id())] = {.taken = now, .last_used = now};
  return std::move(*lease);
}

// Every cached page can go: whoever leases a page of a group that sees everything leases all above.
void KvCache::evict_one() {
  settle();
  const auto page = index_.victim(clock_.now());
  CHECK(page.has_value());
  evict(*page);
}

// With all of its snapshot, where it is of one.
void KvCache::evict(PageId page) {
  if (const PrefixNode* node = index_.node_with(page); is_logged(*node, pool_.group(page))) {
    log_->on_removed(node->key);
  }
  run_.assign(1, page);
  if (index_.is_of_snapshot(page)) run_ = index_.node_with(page)->snapshot;
  index_.erase(page);
  for (const PageId id : run_) pool_.evict(id);
  n_evictions_ += run_.size();
}

// Tells the index which pages nobody leases any more.
void KvCache::settle() {
  pool_.take_unused(unused_);
  for (const PageId page : unused_) {
    if (pool_.n_owners(page) == 0 && index_.knows(page)) index_.set_unused(page);
  }
}

void KvCache::slide(PageTable& table, uint64_t n_tokens) {
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    const uint64_t first = layout_.rules[g].first_page_needed(n_tokens);
    table.slide(g, std::min(static_cast<uint32_t>(first), table.n_pages(g)));
  }
}

void KvCache::shrink(PageTable& table, uint64_t n_tokens) {
  const auto n_pages = static_cast<uint32_t>(pages_for(n_tokens));
  CHECK(n_pages >= table.n_sealed());
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) table.cut(g, n_pages);
}

// --- making findable ---

void KvCache::seal(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  const uint32_t n_before = table.n_sealed();
  while ((uint64_t{table.n_sealed()} + 1) * kPageTokens <= tokens.size()) {
    const auto own = tokens.subspan(size_t{table.n_sealed()} * kPageTokens, kPageTokens);
    if (!seal_next(table, root, own)) break;
  }
  if (table.n_sealed() > n_before) keep_open_page(table, root, tokens, table.n_sealed() - n_before);
}

// Keeps the open page of the last sealed page if the prompt ends there: the same prompt is then
// found to its last token. n_new: pages sealed with it. The slot has the newest page of a step, and
// the one before it if the step had no more than these two (OpenPages).
void KvCache::keep_open_page(const PageTable& table, const PageKey& root,
                             std::span<const TokenId> tokens, uint32_t n_new) {
  const uint64_t n_sealed_tokens = uint64_t{table.n_sealed()} * kPageTokens;
  const uint64_t n_prompt = table.owner.n_prompt;
  const bool ends_there = n_prompt <= n_sealed_tokens && n_prompt + kPageTokens > n_sealed_tokens;
  if (!table.open_pages() || !ends_there) return;
  if (n_sealed_tokens < tokens.size() && n_new > 1) return;
  if (n_sealed_tokens + kPageTokens <= tokens.size()) return;
  keep_state(table, root, tokens.first(n_sealed_tokens), SnapshotKind::kEnd);
}

// The table's pages at one index, where it holds all of them; else nothing.
std::span<const std::optional<PageId>> KvCache::pages_at(const PageTable& table, uint32_t index) {
  node_pages_.clear();
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    if (!table.holds(g, index)) return {};
    node_pages_.push_back(table.page(g, index));
  }
  return node_pages_;
}

// Where another sequence computed the same page meanwhile, the table takes that one and gives its
// own back: the bytes are the same. False where nothing more can be shared: the key is that of
// other tokens, or a page before this one was given up while its window had passed on.
bool KvCache::seal_next(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  const uint32_t index = table.n_sealed();
  const auto pages = pages_at(table, index);
  if (pages.empty()) return false;
  const PrefixNode* node = insert(table, root, tokens, pages);
  if (!node) return false;
  for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
    if (!node->pages[g]) continue;
    if (node->pages[g] == pages[g]) {
      publish(*pages[g]);
    } else {
      table.put(g, index, lease(*node->pages[g]), address(*node->pages[g]));
    }
  }
  table.mark_sealed(node->key);
  if (!table.owner.pins.empty()) pin(table, index, clock_.now());
  return true;
}

// Tokens that the table's owner computed, behind its sealed pages.
const PrefixNode* KvCache::insert(const PageTable& table, const PageKey& root,
                                  std::span<const TokenId> tokens,
                                  std::span<const std::optional<PageId>> pages) {
  const uint64_t n_revealed = index_.n_revealed();
  const PrefixNode* node = index_.insert({.root = root,
                                          .parent = table.last_key().value_or(root),
                                          .tokens = tokens,
                                          .pages = pages,
                                          .tenant = table.owner.tenant,
                                          .known = mark_of(table.owner.tenant),
                                          .adapter = table.owner.adapter});
  if (node && index_.n_revealed() > n_revealed) tell_of(*node);
  return node;
}

// A node became known to all: slower tiers hear of it as of a new one.
void KvCache::tell_of(const PrefixNode& node) {
  for (const auto& page : node.pages) {
    if (!page) continue;
    pool_.note_change(*page);
    const bool is_new = pool_.state(*page) == PageState::kLeased;  // publish() will tell
    if (sink_ && !is_new) sink_->on_sealed(*page);
  }
  for (const PageId page : node.snapshot) {
    pool_.note_change(page);
    if (sink_) sink_->on_sealed(page);
  }
}

// Whole pages of the group that says how far a prefix goes.
bool KvCache::is_logged(const PrefixNode& node, uint32_t group) const {
  if (!log_ || node.tokens.size() != kPageTokens) return false;
  const auto leader = std::ranges::find_if(layout_.rules, &GroupRule::needs_all);
  return group == (leader == layout_.rules.end() ? 0 : leader - layout_.rules.begin());
}

std::optional<PageLogCounts> KvCache::log_counts() const {
  if (!log_) return std::nullopt;
  PageLogCounts counts = log_->counts();
  counts.max_bytes = log_->bytes_for(n_pages());
  return counts;
}

void KvCache::log_stored(PageId page) const {
  const PrefixNode* node = index_.node_with(page);
  if (!is_logged(*node, pool_.group(page))) return;
  const PageKey* parent = node->depth > 0 ? &node->parent->key : nullptr;
  log_->on_stored(
      {.key = node->key, .parent = parent, .tokens = node->tokens, .adapter = node->adapter});
}

// A second call for a sealed page repeats what a first one lacked the memory for.
void KvCache::publish(PageId page) {
  if (pool_.state(page) == PageState::kLeased) pool_.seal(page);
  log_stored(page);
  if (sink_) sink_->on_sealed(page);
}

void KvCache::close(PageTable& table, const PageKey& root, std::span<const TokenId> tokens) {
  seal(table, root, tokens);
  keep_last_page(table, root, tokens);
  const TimePoint now = clock_.now();
  for (uint32_t i = 0; i <= table.n_sealed() && !table.owner.pins.empty(); ++i) pin(table, i, now);
  table.clear();
  settle();  // left to the first eviction, a large cache's pages took a quarter of a second
}

// Makes the page after the table's sealed ones findable if it is partly filled.
void KvCache::keep_last_page(PageTable& table, const PageKey& root,
                             std::span<const TokenId> tokens) {
  const uint32_t index = table.n_sealed();
  const PrefixIndex::Stretch stretch = stretch_behind(table, root, tokens);
  if (stretch.tokens.empty() || stretch.tokens.size() >= kPageTokens) return;
  if (table.is_in_step && layout_.has_open_pages()) return;
  const auto pages = pages_at(table, index);
  if (pages.empty()) return;
  std::vector<PageLease> snapshot;
  if (layout_.has_open_pages()) {
    snapshot = take_for_snapshot();
    if (snapshot.empty()) return;  // without it the page is of no use
  }
  const PrefixNode* node = insert(table, root, stretch.tokens, pages);
  for (uint32_t g = 0; node && g < layout_.n_groups(); ++g) {
    if (node->pages[g] == pages[g]) publish(*pages[g]);
  }
  // One that others kept holds the same bytes.
  if (snapshot.empty() || !node || !node->snapshot.empty()) return;
  const uint64_t offset = open_page_offset(index, layout_.open_page_bytes);
  copy_into(snapshot, table.open_pages() + offset, layout_.open_page_bytes);
  if (!attach(stretch, snapshot, SnapshotKind::kEnd, Regard::kNew)) return;
  ++n_snapshots_;
  pin_snapshot(table, *node, tokens.size());
}

// Pins what the table holds of the pages at one index and what its owner's pins want of them.
void KvCache::pin(const PageTable& table, uint32_t index, TimePoint now) {
  for (const Pin& pin : table.owner.pins) {
    if (uint64_t{index} * kPageTokens >= pin.n_tokens) continue;
    for (uint32_t g = 0; g < layout_.n_groups(); ++g) {
      if (!table.holds(g, index) || !index_.knows(table.page(g, index))) continue;
      if (index < layout_.rules[g].first_page_needed(pin.n_tokens)) continue;
      index_.pin(table.page(g, index), now + pin.ttl, table.owner.tenant);
    }
  }
}

}  // namespace kvik
