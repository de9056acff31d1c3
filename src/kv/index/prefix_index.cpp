#include "kv/index/prefix_index.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

// Returns whether `a` has every page that `b` has.
bool has_pages_of(const PrefixNode& node, std::span<const std::optional<PageId>> others) {
  for (size_t g = 0; g < others.size(); ++g) {
    if (others[g] && !node.pages[g]) return false;
  }
  return true;
}

}  // namespace

PrefixIndex::PrefixIndex(uint32_t n_pages, std::vector<GroupRule> rules, KeyFunction key_of,
                         Resume resume, uint32_t n_reserved)
    : rules_(std::move(rules)),
      key_of_(key_of),
      resume_(resume),
      first_reserved_(n_pages - n_reserved),
      places_(n_pages),
      pins_(n_pages) {}

// --- lookup ---

// Returns the node of a key below `root`. A key proves nothing: a root key cannot name a page, nor
// a page's key a root.
PrefixNode* PrefixIndex::node_of(const PageKey& root, const PageKey& key) const {
  const auto it = nodes_.find(key);
  if (it == nodes_.end()) return nullptr;
  PrefixNode* node = it->second.get();
  const bool is_root = node->parent == nullptr;
  return is_root == (key == root) ? node : nullptr;
}

const PrefixNode* PrefixIndex::find_child(const PageKey& root, const PageKey& parent,
                                          std::span<const TokenId> tokens,
                                          SharingMark reader) const {
  CHECK(tokens.size() == kPageTokens);
  const PrefixNode* above = node_of(root, parent);
  if (!above) return nullptr;
  const auto best = ChildrenByMatch(*above, reader, tokens).next();
  return best.n_shared == kPageTokens ? best.node : nullptr;
}

SharingMark PrefixIndex::mark_for(const PageKey& root, const PageKey& parent,
                                  std::span<const TokenId> tokens) const {
  const PrefixNode* above = node_of(root, parent);
  if (!above) return SharingMark::kNoTenant;
  const auto it = nodes_.find(key_of_(parent, tokens));
  if (it == nodes_.end() || it->second->parent != above ||
      !std::ranges::equal(it->second->tokens, tokens)) {
    return SharingMark::kNoTenant;
  }
  return it->second->known;
}

void PrefixIndex::append_continuation(const PageKey& root, const PageKey& parent,
                                      std::span<const TokenId> tokens, SharingMark reader,
                                      size_t n_max, std::vector<TokenId>& out) const {
  constexpr size_t kLookedAt = 16;
  CHECK(tokens.size() < kPageTokens);
  const auto last_use = [&](const PrefixNode& node) {
    const auto page = std::ranges::find_if(node.pages, [](const auto& p) { return p.has_value(); });
    return page == node.pages.end() ? 0 : place(**page).last_use;
  };
  const PrefixNode* node = node_of(root, parent);
  while (node && n_max > 0) {
    ChildrenByMatch children(*node, reader, tokens);
    const PrefixNode* best = nullptr;
    size_t n_seen = 0;
    for (auto child = children.next();
         child.node && child.n_shared == tokens.size() && n_seen < kLookedAt;
         child = children.next(), ++n_seen) {
      if (child.node->tokens.size() == tokens.size()) continue;
      if (!best || last_use(*child.node) > last_use(*best)) best = child.node;
    }
    if (!best) return;
    auto more = std::span<const TokenId>(best->tokens).subspan(tokens.size());
    more = more.first(std::min(more.size(), n_max));
    out.insert(out.end(), more.begin(), more.end());
    n_max -= more.size();
    tokens = {};
    node = best;
  }
}

// Returns all nodes on the path of whole pages of `tokens`, whichever pages they still have.
PrefixIndex::Path PrefixIndex::walk(const PrefixNode& root, std::span<const TokenId> tokens,
                                    SharingMark reader) const {
  Path path;
  const PrefixNode* last = &root;
  while (tokens.size() >= (path.size() + 1) * kPageTokens) {
    const auto best = ChildrenByMatch(*last, reader, page_at(tokens, path.size())).next();
    if (best.n_shared < kPageTokens) break;
    path.push_back(last = best.node);
  }
  return path;
}

// Returns whether the nodes of a path have all pages that resuming after n_tokens needs.
bool PrefixIndex::covers(const Path& path, size_t n_tokens) const {
  for (size_t g = 0; g < rules_.size(); ++g) {
    const auto has = [&](size_t i) { return path[i]->pages[g].has_value(); };
    if (!rules_[g].can_resume(n_tokens, has)) return false;
  }
  return true;
}

PrefixIndex::Match PrefixIndex::find(const PageKey& root, std::span<const TokenId> tokens,
                                     const PageReader& reader) const {
  static const PrefixNode kNothingKnown;
  const PrefixNode* top = node_of(root, root);
  if (!top) top = &kNothingKnown;
  Match known = find_known(*top, root, tokens, reader);
  known.n_known = known.n_tokens();
  if (resume_ != Resume::kAtSnapshots) return known;
  Match match = find_snapshot(*top, tokens, reader);
  match.n_known = known.n_known;
  match.miss = MissReason::kNoSnapshot;
  if (match.n_tokens() < known.n_tokens()) return match;
  match.miss = known.miss;
  match.expected = known.expected;
  return match;
}

// Returns whether a sequence can resume after a part of the node's tokens.
bool PrefixIndex::serves_as_head(const PrefixNode& node) const {
  return node.is_whole() && (resume_ != Resume::kAtOpenPages || !node.snapshot.empty());
}

// Returns the child that shares most tokens with `rest`, of those that serve as a head.
ChildrenByMatch::Child PrefixIndex::best_head(const PrefixNode& above,
                                              std::span<const TokenId> rest,
                                              SharingMark reader) const {
  // Skips full pages, which have no open page: many of them may begin alike.
  const size_t n_max = resume_ == Resume::kAtOpenPages ? 64 : SIZE_MAX;
  ChildrenByMatch children(above, reader, rest);
  auto head = children.next();
  for (size_t n = 1; head.n_shared > 0 && !serves_as_head(*head.node); ++n) {
    if (n == n_max) return {};
    head = children.next();
  }
  return head;
}

PrefixIndex::Match PrefixIndex::find_known(const PrefixNode& top, const PageKey& root,
                                           std::span<const TokenId> tokens,
                                           const PageReader& reader) const {
  Match match;
  const Path path = walk(top, tokens, reader.as);
  for (size_t n_whole = path.size();; --n_whole) {
    const PrefixNode& last = n_whole > 0 ? *path[n_whole - 1] : top;
    const auto rest = page_at(tokens, n_whole);
    // After the same pages, the longest head needs the fewest pages.
    const auto head = best_head(last, rest, reader.as);
    if (n_whole > 0 && !covers(path, n_whole * kPageTokens + head.n_shared)) continue;
    CHECK(head.n_shared < kPageTokens);
    match.head = head.n_shared > 0 ? head.node : nullptr;
    match.n_head = head.n_shared;
    if (resume_ == Resume::kAtOpenPages) match.snapshot = match.head;
    if (n_whole * kPageTokens + match.n_head < tokens.size()) {
      const size_t n_more = resume_ == Resume::kAtOpenPages ? kPageTokens : match.n_head + 1;
      const bool was_known = n_whole < path.size() ||
                             evicted_.knew(n_whole > 0 ? last.key : root, reader.as, rest, n_more);
      explain(match, last, rest, reader);
      if (was_known) match.miss = MissReason::kEvicted;
      if (match.miss == MissReason::kEvicted) match.n_uncached_match = 0;
    }
    if (match.miss != MissReason::kDiverged) match.expected.reset();
    match.last = n_whole > 0 ? path[n_whole - 1] : nullptr;
    match.n_whole = static_cast<uint32_t>(n_whole);
    return match;
  }
}

// Sets why the first token after the match missed. rest: the tokens after the whole pages.
void PrefixIndex::explain(Match& match, const PrefixNode& last, std::span<const TokenId> rest,
                          const PageReader& reader) const {
  ChildrenByMatch children(last, reader.as, rest);
  const auto best = children.next();
  const bool ends_at_pages = resume_ == Resume::kAtOpenPages && best.n_shared < kPageTokens;
  const uint32_t n_uncached_match = ends_at_pages ? best.n_shared : match.n_head;
  if (best.n_shared > n_uncached_match) {  // but some of its pages were evicted
    match.miss = MissReason::kEvicted;
    return;
  }
  if (n_uncached_match == rest.size()) {
    match.miss = MissReason::kNoSnapshot;
    return;
  }
  match.n_uncached_match = n_uncached_match - match.n_head;
  if (last.parent == nullptr && n_uncached_match == 0) {
    match.miss = MissReason::kNeverSeen;
    return;
  }
  // A sequence that ended exactly there counts as too short.
  match.miss = MissReason::kTooShort;
  for (auto child = best; child.node && child.n_shared == n_uncached_match;
       child = children.next()) {
    const auto& known = child.node->tokens;
    if (known.size() == n_uncached_match) {
      match.miss = MissReason::kTooShort;
      return;
    }
    match.miss = MissReason::kDiverged;
    // If tenants do not share all pages, no token is reported: reporting pages of one tenant only
    // would reveal which pages two tenants know.
    if (reader.as == SharingMark::kAll && child.node->tenant == reader.tenant) {
      match.expected = known[n_uncached_match];
    }
    if (n_uncached_match == 0) return;  // there may be many children
  }
}

// --- inserting ---

PrefixNode* PrefixIndex::parent_of(const TokenPages& entry) {
  if (PrefixNode* known = node_of(entry.root, entry.parent)) return known;
  if (entry.parent != entry.root || nodes_.contains(entry.root)) return nullptr;
  auto root = std::make_unique<PrefixNode>();
  root->key = entry.root;
  root->pages.resize(rules_.size());
  root->n_below.resize(rules_.size());
  PrefixNode* const made = nodes_.emplace(entry.root, std::move(root)).first->second.get();
  ++n_roots_;
  return made;
}

const PrefixNode* PrefixIndex::insert(const TokenPages& entry) {
  CHECK(!entry.tokens.empty() && entry.tokens.size() <= kPageTokens);
  CHECK(entry.pages.size() == rules_.size());
  PrefixNode* parent = parent_of(entry);
  if (!parent) return nullptr;
  PrefixNode* node = nullptr;
  ChildrenByMatch children(*parent, entry.known, entry.tokens);
  for (auto child = children.next(); child.node && child.n_shared == entry.tokens.size();
       child = children.next()) {
    if (child.node->tokens.size() == entry.tokens.size()) {
      node = child.node;
    } else if (has_pages_of(*child.node, entry.pages) &&
               (resume_ != Resume::kAtOpenPages || !child.node->snapshot.empty())) {
      return child.node;
    }
  }
  if (!node) {
    node = node_for(*parent, entry);
    if (!node) {
      drop_if_empty(parent);
      return nullptr;
    }
    outdate_branch_beside(*node);
  }
  for (uint32_t g = 0; g < rules_.size(); ++g) {
    if (!entry.pages[g] || node->pages[g]) continue;
    // Nothing can be found below an evicted page.
    if (rules_[g].needs_all() && parent->parent && !parent->pages[g]) continue;
    add_page(*node, g, *entry.pages[g]);
  }
  if (!node->has_pages() && node->children.empty()) {
    drop_if_empty(node);
    return nullptr;
  }
  learn(*node, entry.known);
  outdate_heads_of(*node, node->known);
  if (node->known != entry.known) outdate_heads_of(*node, entry.known);
  return node;
}

// Returns a new node, or the existing node of the same tokens, even if its reader cannot find it.
PrefixNode* PrefixIndex::node_for(PrefixNode& parent, const TokenPages& entry) {
  const PageKey key = key_of_(entry.parent, entry.tokens);
  if (const auto found = nodes_.find(key); found != nodes_.end()) {
    PrefixNode& known = *found->second;
    const bool is_same = known.parent == &parent && std::ranges::equal(known.tokens, entry.tokens);
    return is_same ? &known : nullptr;
  }
  auto made = std::make_unique<PrefixNode>();
  PrefixNode& node = *made;
  node.key = key;
  node.parent = &parent;
  node.tokens.assign(entry.tokens.begin(), entry.tokens.end());
  node.pages.resize(rules_.size());
  node.n_below.resize(rules_.size());
  node.tenant = entry.tenant;
  node.adapter = entry.adapter;
  node.known = entry.known;
  node.depth = parent.parent ? parent.depth + 1 : 0;
  // Allocate before anything changes.
  auto& siblings = parent.children;
  if (siblings.size() == siblings.capacity()) siblings.reserve(2 * siblings.size() + 1);
  nodes_.emplace(key, std::move(made));
  siblings.insert(place_of_child(parent, node.known, node.tokens), &node);
  return &node;
}

void PrefixIndex::learn(PrefixNode& node, SharingMark known) {
  const SharingMark both = joined(node.known, known);
  if (both == node.known) return;
  auto& siblings = node.parent->children;
  siblings.erase(place_of_child(*node.parent, node.known, node.tokens));
  node.known = both;
  siblings.insert(place_of_child(*node.parent, node.known, node.tokens), &node);
  ++n_changes_;
  ++n_revealed_;
  const auto begin_anew = [&](Place& p) {
    p.n_uses = 1;
    p.last_use = ++n_ticks_;
  };
  for (const auto& page : node.pages) {
    if (page) change(*page, begin_anew);
  }
  for (const PageId page : node.snapshot) change(page, begin_anew);
}

void PrefixIndex::add_page(PrefixNode& node, uint32_t group, PageId page) {
  CHECK(!knows(page));
  ++n_changes_;
  place(page) = {.node = &node,
                 .group = group,
                 .n_uses = 1,
                 .last_use = ++n_ticks_,
                 .n_pins = 0,
                 .is_in_use = true};
  node.pages[group] = page;
  const auto above = node.parent->pages[group];
  if (!above) {
    ++node.parent->n_below[group];
    return;
  }
  change(*above, [&](Place&) { ++node.parent->n_below[group]; });
}

// Ranks first for eviction the tails with the same mark that are a prefix of this node: their
// readers find this node too, so they are seldom hit, or never if this node has an open page.
void PrefixIndex::outdate_heads_of(const PrefixNode& node, SharingMark known) {
  const auto& siblings = node.parent->children;
  auto at = place_of_child(*node.parent, known, node.tokens);
  while (at != siblings.begin()) {
    const PrefixNode& tail = **--at;
    if (tail.known != known) return;
    if (common_prefix(tail.tokens, node.tokens) < tail.tokens.size()) return;
    if (!has_pages_of(node, tail.pages)) continue;
    const auto outdate_pinned = [this](PageId page) {
      pins_.forget(page);
      apply_pins();
      outdate(page);
    };
    for (const auto& page : tail.pages) {
      if (page) outdate_pinned(*page);
    }
    if (resume_ != Resume::kAtOpenPages) continue;
    for (const PageId page : tail.snapshot) outdate_pinned(page);
  }
}

// --- eviction ---

PrefixIndex::Class PrefixIndex::class_of(PageId page) const {
  const Place& p = place(page);
  if (p.n_pins > 0) return Class::kPinned;
  if (p.n_uses == 0 || is_bare(page)) return Class::kSpent;
  return resume_ == Resume::kAtSnapshots && p.n_uses > 1 ? Class::kHot : Class::kCold;
}

// Returns whether the page may be evicted and needs a snapshot to be of use, but has none.
bool PrefixIndex::is_bare(PageId page) const {
  const Place& p = place(page);
  if (resume_ == Resume::kAnywhere || is_of_snapshot(page)) return false;
  if (resume_ == Resume::kAtOpenPages) {
    return p.node->tokens.size() < kPageTokens && p.node->snapshot.empty();
  }
  // In a group with full attention, a page that may be evicted has no snapshot that needs it.
  return rules_[p.group].needs_all() && p.node->parent->n_tail_snapshots == 0;
}

PrefixIndex::Rank PrefixIndex::rank(PageId page) const {
  return {class_of(page), place(page).last_use, page};
}

bool PrefixIndex::is_candidate(PageId page) const {
  const Place& p = place(page);
  if (!p.node || p.is_in_use) return false;
  if (is_of_snapshot(page)) return p.node->snapshot.front() == page;
  return !rules_[p.group].needs_all() || p.node->n_below[p.group] == 0;
}

void PrefixIndex::add_candidate(PageId page) {
  candidates_.insert(rank(page));
  if (is_reserved(page)) reserved_candidates_.insert(rank(page));
}

void PrefixIndex::drop_candidate(PageId page) {
  candidates_.erase(rank(page));
  if (is_reserved(page)) reserved_candidates_.erase(rank(page));
}

void PrefixIndex::touch(PageId page) {
  change(page, [&](Place& p) {
    p.last_use = ++n_ticks_;
    ++p.n_uses;
  });
}

void PrefixIndex::note_awaited(PageId page) {
  change(page, [&](Place& p) {
    if (p.n_uses > 0) p.last_use = ++n_ticks_;
  });
}

void PrefixIndex::set_in_use(PageId page) {
  change(page, [](Place& p) { p.is_in_use = true; });
}

void PrefixIndex::set_unused(PageId page) {
  change(page, [&](Place& p) {
    if (p.n_uses > 0) p.last_use = ++n_ticks_;
    p.is_in_use = false;
  });
}

void PrefixIndex::pin(PageId page, TimePoint until, uint64_t tenant) {
  pins_.pin(page, place(page).node->depth, tenant, until);
  apply_pins();
}

void PrefixIndex::apply_pins() {
  for (const auto& [page, n_pins] : pins_.take_changes()) {
    change(page, [n = n_pins](Place& p) { p.n_pins += n; });
  }
}

std::optional<PageId> PrefixIndex::victim(TimePoint now) {
  pins_.expire(now);
  apply_pins();
  if (candidates_.empty()) return std::nullopt;
  auto chosen = candidates_.begin();
  if (uint64_t{n_hot_} * 100 > uint64_t{places_.size()} * kHotPercent) {
    const auto hot = candidates_.lower_bound({Class::kHot, 0, PageId{}});
    const bool is_spent = std::get<Class>(*chosen) == Class::kSpent;
    if (!is_spent && hot != candidates_.end() && std::get<Class>(*hot) == Class::kHot) {
      chosen = hot;
    }
  }
  return std::get<PageId>(*chosen);
}

std::optional<PageId> PrefixIndex::reserved_victim(TimePoint now) {
  pins_.expire(now);
  apply_pins();
  if (reserved_candidates_.empty()) return std::nullopt;
  return std::get<PageId>(*reserved_candidates_.begin());
}

void PrefixIndex::erase(PageId page) {
  CHECK(is_candidate(page));
  ++n_changes_;
  PrefixNode& node = *place(page).node;
  if (is_of_snapshot(page)) return erase_snapshot(node);
  const uint32_t group = place(page).group;
  pins_.forget(page);
  apply_pins();
  change(page, [](Place& p) { p = {}; });
  node.pages[group].reset();
  if (const auto above = node.parent->pages[group]) {
    change(*above, [&](Place&) { --node.parent->n_below[group]; });
  } else {
    --node.parent->n_below[group];
  }
  drop_if_empty(&node);
}

// Deletes a node without pages and children, and then its ancestors if they have become empty.
void PrefixIndex::drop_if_empty(PrefixNode* node) {
  while (node && !node->has_pages() && node->children.empty()) {
    PrefixNode* parent = node->parent;
    if (parent) {
      parent->children.erase(place_of_child(*parent, node->known, node->tokens));
      evicted_.add(parent->key, {.known = node->known, .tokens = std::move(node->tokens)});
    } else {
      --n_roots_;
    }
    nodes_.erase(PageKey(node->key));
    node = parent;
  }
}

}  // namespace kvik
