#include "kv/page_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

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

PageStore::PageStore(Memory& memory, uint64_t budget_bytes, KvLayout layout, const Clock& clock,
                     KeyFunction key_of)
    : memory_(memory),
      clock_(clock),
      layout_(std::move(layout)),
      pool_(static_cast<uint32_t>(budget_bytes / layout_.page_bytes) + n_pages_of_states(layout_),
            layout_.n_groups() + (layout_.has_snapshots() ? 1 : 0), n_pages_of_states(layout_)),
      index_(pool_.n_pages(), layout_.rules, key_of, resume_of(layout_),
             n_pages_of_states(layout_)),
      histories_(pool_.n_pages()),
      idle_(pool_.n_pages()),
      buffer_(memory.allocate(pool_.n_pages() * layout_.page_bytes)) {
  CHECK(budget_bytes / layout_.page_bytes + n_pages_of_states(layout_) <= UINT32_MAX);
}

// --- pages ---

PageLease PageStore::lease(PageId id) {
  PageLease lease = pool_.lease(id);
  index_.set_in_use(id);
  idle_.remove(id);
  history(id).last_used = clock_.now();
  return lease;
}

// Every cached page can be evicted: a lease on a page of a group with full attention comes with
// leases on all pages before it.
PageLease PageStore::take(uint32_t group) {
  while (pool_.n_free() == 0) {
    settle();
    const auto page = index_.victim(clock_.now());
    CHECK(page.has_value());
    evict(*page);
  }
  auto lease = pool_.take(group);
  CHECK(lease.has_value());
  const TimePoint now = clock_.now();
  history(lease->id()) = {.taken = now, .last_used = now};
  return std::move(*lease);
}

void PageStore::notify_shortage() const {
  if (sink_) sink_->on_shortage();
}

void PageStore::evict(PageId page) {
  if (const PrefixNode* node = index_.node_with(page); is_logged(*node, pool_.group(page))) {
    log_->on_removed(node->key);
  }
  evicted_.assign(1, page);
  if (index_.is_of_snapshot(page)) evicted_ = index_.node_with(page)->snapshot;
  index_.erase(page);
  for (const PageId id : evicted_) {
    pool_.evict(id);
    idle_.remove(id);
  }
  n_evictions_ += evicted_.size();
}

void PageStore::settle() {
  pool_.take_unused(unused_);
  const TimePoint now = clock_.now();
  for (const PageId page : unused_) {
    if (pool_.n_owners(page) > 0 || !index_.knows(page)) continue;
    index_.set_unused(page);
    history(page).last_used = now;
    if (!pool_.is_reserved(page)) idle_.note_use(page, now);
  }
}

// --- contents ---

PrefixIndex::TokenPages PageStore::rest_of(const PageTable& table,
                                           std::span<const TokenId> tokens) const {
  return {.root = table.root(),
          .parent = table.parent_key(),
          .tokens = tokens.subspan(size_t{table.n_sealed()} * kPageTokens),
          .pages = {},
          .tenant = table.owner.tenant,
          .known = mark_of(table.owner.tenant),
          .adapter = table.owner.adapter};
}

const PrefixNode* PageStore::insert(const PrefixIndex::TokenPages& entry) {
  const uint64_t n_revealed = index_.n_revealed();
  const PrefixNode* node = index_.insert(entry);
  if (node && index_.n_revealed() > n_revealed) notify_of(*node);
  return node;
}

const PrefixNode* PageStore::know_snapshot(const PrefixIndex::TokenPages& entry) {
  const uint64_t n_revealed = index_.n_revealed();
  const PrefixNode* node = index_.know_snapshot(entry);
  if (!node) return nullptr;
  index_.note_awaited(node->snapshot.front());
  if (index_.n_revealed() > n_revealed) notify_of(*node);
  return node;
}

// A node became visible to all tenants: the tiers are informed as for a new page.
void PageStore::notify_of(const PrefixNode& node) {
  for (const auto& page : node.pages) {
    if (!page) continue;
    pool_.note_change(*page);
    const bool is_new = pool_.state(*page) == PageState::kLeased;  // publish() informs them
    if (sink_ && !is_new) sink_->on_sealed(*page);
  }
  for (const PageId page : node.snapshot) {
    pool_.note_change(page);
    if (sink_) sink_->on_sealed(page);
  }
}

void PageStore::publish(PageId page) {
  if (pool_.state(page) == PageState::kLeased) pool_.seal(page);
  log_stored(page);
  if (sink_) sink_->on_sealed(page);
}

void PageStore::publish_snapshot(std::span<const PageLease> pages) {
  for (const PageLease& page : pages) pool_.seal(page.id());
  for (const PageLease& page : pages) {
    if (sink_) sink_->on_sealed(page.id());
  }
}

// Only whole pages of the group with the longest attention span are logged.
bool PageStore::is_logged(const PrefixNode& node, uint32_t group) const {
  if (!log_ || node.tokens.size() != kPageTokens) return false;
  const auto leader = std::ranges::find_if(layout_.rules, &GroupRule::needs_all);
  return group == (leader == layout_.rules.end() ? 0 : leader - layout_.rules.begin());
}

std::optional<PageLogCounts> PageStore::log_counts() const {
  if (!log_) return std::nullopt;
  PageLogCounts counts = log_->counts();
  counts.max_bytes = log_->bytes_for(pool_.n_pages());
  return counts;
}

void PageStore::log_stored(PageId page) const {
  const PrefixNode* node = index_.node_with(page);
  if (!is_logged(*node, pool_.group(page))) return;
  const PageKey* parent = node->depth > 0 ? &node->parent->key : nullptr;
  log_->on_stored(
      {.key = node->key, .parent = parent, .tokens = node->tokens, .adapter = node->adapter});
}

// --- tiers ---

std::optional<PageLease> PageStore::insert_fetched(const TierPage& page, const IncomingBytes& bytes,
                                                   const PrefixQuery& query) {
  CHECK(page.group < layout_.n_groups() && bytes.size() == layout_.page_bytes);
  if (n_available() == 0) return std::nullopt;
  PageLease own = take(page.group);
  bytes.place(bytes_of(own.id()));
  node_pages_.assign(layout_.n_groups(), std::nullopt);
  node_pages_[page.group] = own.id();
  const PrefixNode* node = index_.insert({.root = page.root,
                                          .parent = page.parent,
                                          .tokens = page.tokens,
                                          .pages = node_pages_,
                                          .tenant = query.tenant,
                                          .known = known_as(page.known),
                                          .adapter = query.adapter});
  if (!node || !node->pages[page.group]) return std::nullopt;
  if (node->pages[page.group] != own.id()) return lease(*node->pages[page.group]);
  pool_.seal(own.id());
  log_stored(own.id());
  history(own.id()).is_fetched = history(own.id()).is_saved = true;
  return own;
}

void PageStore::note_saved(PageId id) {
  history(id).is_saved = true;
  pool_.note_change(id);
}

std::optional<TierPage> PageStore::describe(PageId id) const {
  const PrefixNode* node = index_.node_with(id);
  if (!node) return std::nullopt;
  const PrefixNode* root = node;
  while (root->parent) root = root->parent;
  const auto found = std::ranges::find(node->snapshot, id);
  const bool is_of_snapshot = found != node->snapshot.end();
  return TierPage{.root = root->key,
                  .parent = node->parent->key,
                  .key = node->key,
                  .group = is_of_snapshot ? kSnapshotGroup + static_cast<uint32_t>(
                                                                 found - node->snapshot.begin())
                                          : pool_.group(id),
                  .tokens = node->tokens,
                  // Pages that all tenants find have no owner, so that a later tenant with that
                  // hash cannot find them by it.
                  .known = sharing_ == Sharing::kAll ? SharingMark::kNoTenant : node->known};
}

}  // namespace kvik
