#include <algorithm>

#include "base/check.h"
#include "kv/kv_cache.h"

// Snapshots: of states, which sequences of some models have beside their pages, and of open pages.
namespace kvik {

// One with anything in it. False where it lacks one and all are in use.
bool KvCache::lease_state(PageTable& table) {
  if (!layout_.has_state() || table.state_) return true;
  auto state = states_.take();
  if (!state) {
    settle();
    const auto page = index_.victim_apart(clock_.now());
    if (!page) return false;
    evict(*page);
    state = states_.take();
  }
  CHECK(state.has_value());
  table.state_ = std::move(*state);
  return true;
}

// The same, cleared where it is new, as before the first token.
bool KvCache::take_state(PageTable& table) {
  const bool is_new = layout_.has_state() && !table.state_;
  if (!lease_state(table)) return false;
  if (is_new) memory_.clear(table.state(), layout_.state_bytes);
  return true;
}

// One that goes on from the snapshot of a match; none where all are in use. A snapshot that lies in
// the only slot left becomes the state itself.
void KvCache::resume_state(PageTable& table, const PrefixIndex::Match& match) {
  const PageId front = match.snapshot->snapshot.front();
  PageLease held = lease(front);
  if (lease_state(table)) {
    copy_from(*match.snapshot, table.state(), layout_.state_bytes);
    pin_snapshot(table, *match.snapshot, match.n_tokens());
    return;
  }
  held = PageLease();
  if (!pool_.is_apart(front)) return;
  CHECK(lease_state(table) && table.state() == address(front));
}

// Pages for a snapshot: free ones, else a slot that is spare, else those of what ranks lowest. None
// where there is no room for it.
std::vector<PageLease> KvCache::take_for_snapshot() {
  const uint32_t n_pages = layout_.n_snapshot_pages();
  std::vector<PageLease> pages;
  if (pool_.n_free() < n_pages) pages = states_.take_spare();
  if (pages.empty() && n_available() < n_pages) return {};
  while (pages.empty() && pool_.n_free() < n_pages) {
    settle();
    const auto page = index_.victim(clock_.now());
    CHECK(page.has_value());
    evict(*page);
    if (pool_.is_apart(*page)) pages = states_.take_empty();
  }
  while (pages.size() < n_pages) pages.push_back(take(layout_.n_groups()));
  const TimePoint now = clock_.now();
  for (const PageLease& page : pages) {
    stories_[static_cast<uint32_t>(page.id())] = {.taken = now, .last_used = now};
  }
  return pages;
}

// What stands behind the table's sealed pages of all its sequence has.
PrefixIndex::Stretch KvCache::stretch_behind(const PageTable& table, const PageKey& root,
                                             std::span<const TokenId> tokens) const {
  return {.root = root,
          .parent = table.last_key().value_or(root),
          .tokens = tokens.subspan(size_t{table.n_sealed()} * kPageTokens),
          .pages = {},
          .tenant = table.owner.tenant,
          .known = mark_of(table.owner.tenant),
          .adapter = table.owner.adapter};
}

bool KvCache::keep_state(const PageTable& table, const PageKey& root,
                         std::span<const TokenId> tokens, SnapshotKind kind, Regard regard) {
  CHECK(table.state_ || (table.open_pages_ && tokens.size() % kPageTokens == 0));
  if (table.is_in_step) return false;
  if (tokens.empty() || table.n_sealed() != tokens.size() / kPageTokens) return false;
  const PrefixIndex::Stretch stretch = stretch_behind(table, root, tokens);
  const uint64_t n_revealed = index_.n_revealed();
  if (const PrefixNode* node = index_.know_snapshot(stretch)) {
    index_.note_awaited(node->snapshot.front());
    if (index_.n_revealed() > n_revealed) tell_of(*node);
    return true;
  }
  const std::vector<PageLease> pages = take_for_snapshot();
  if (pages.empty()) return false;
  if (table.state_) {
    copy_into(pages, table.state(), layout_.state_bytes);
  } else {
    const uint64_t offset = open_page_offset(table.n_sealed() - 1, layout_.open_page_bytes);
    copy_into(pages, table.open_pages() + offset, layout_.open_page_bytes);
  }
  if (!attach(stretch, pages, kind, regard)) return false;
  ++n_snapshots_;
  pin_snapshot(table, *index_.node_with(pages.front().id()), tokens.size());
  return true;
}

// Makes filled pages a snapshot. False where they are not wanted.
bool KvCache::attach(const PrefixIndex::Stretch& stretch, std::span<const PageLease> pages,
                     SnapshotKind kind, Regard regard) {
  run_.clear();
  for (const PageLease& page : pages) run_.push_back(page.id());
  if (!index_.attach(stretch, run_, kind, regard)) return false;
  for (const PageLease& page : pages) pool_.seal(page.id());
  for (const PageLease& page : pages) {
    if (sink_) sink_->on_sealed(page.id());
  }
  return true;
}

void KvCache::copy_into(std::span<const PageLease> pages, const std::byte* from, uint64_t n_bytes) {
  for (size_t i = 0; i < pages.size(); ++i) {
    const uint64_t at = i * layout_.page_bytes;
    memory_.copy(address(pages[i].id()), from + at, std::min(layout_.page_bytes, n_bytes - at));
  }
}

void KvCache::copy_from(const PrefixNode& node, std::byte* to, uint64_t n_bytes) {
  CHECK(node.snapshot.size() == layout_.n_snapshot_pages());
  for (size_t i = 0; i < node.snapshot.size(); ++i) {
    const uint64_t at = i * layout_.page_bytes;
    memory_.copy(to + at, address(node.snapshot[i]), std::min(layout_.page_bytes, n_bytes - at));
  }
  for (const PageId page : node.snapshot) index_.touch(page);
  stories_[static_cast<uint32_t>(node.snapshot.front())].last_used = clock_.now();
}

// Pins a state if one of the owner's pins ends at its last token, and an open page if one ends
// inside it.
void KvCache::pin_snapshot(const PageTable& table, const PrefixNode& node, uint64_t n_tokens) {
  const TimePoint now = clock_.now();
  const uint64_t n_before =
      layout_.has_state() ? n_tokens - 1 : (n_tokens - 1) / kPageTokens * kPageTokens;
  for (const Pin& pin : table.owner.pins) {
    if (pin.n_tokens <= n_before || pin.n_tokens > n_tokens) continue;
    for (const PageId page : node.snapshot) index_.pin(page, now + pin.ttl, table.owner.tenant);
  }
}

std::optional<PageLease> KvCache::take_piece(const IncomingBytes& bytes) {
  CHECK(bytes.size() == layout_.page_bytes);
  if (n_available() == 0) return std::nullopt;
  PageLease piece = take(layout_.n_groups());
  bytes.place(address(piece.id()));
  return piece;
}

bool KvCache::insert_snapshot(const TierPage& page, std::span<const PageLease> pieces,
                              const PrefixQuery& query) {
  CHECK(pieces.size() == layout_.n_snapshot_pages());
  const bool is_whole = page.tokens.size() == kPageTokens;
  PrefixIndex::Stretch stretch{.root = page.root,
                               .parent = is_whole ? page.key : page.parent,
                               .tokens = page.tokens,
                               .pages = {},
                               .tenant = query.tenant,
                               .known = sharing_ == Sharing::kAll ? KnownBy::kAll : page.known,
                               .adapter = query.adapter};
  if (is_whole) stretch.tokens = {};
  if (index_.know_snapshot(stretch)) return true;
  // Why it was kept is not stored: it may have served for anything.
  if (!attach(stretch, pieces, SnapshotKind::kGrid, Regard::kNew)) return false;
  for (const PageLease& piece : pieces) {
    PageStory& story = stories_[static_cast<uint32_t>(piece.id())];
    story.is_fetched = story.is_saved = true;
  }
  return true;
}

}  // namespace kvik
