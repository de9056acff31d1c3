#include <algorithm>

#include "base/check.h"
#include "kv/index/prefix_index.h"

// Snapshots in the index: recurrent states or open pages that are kept for a prefix. Also what a
// later snapshot or branch supersedes.
namespace kvik {

// Returns the longest prefix that ends at a snapshot, with the pages that it needs.
PrefixIndex::Match PrefixIndex::find_snapshot(const PrefixNode& top,
                                              std::span<const TokenId> tokens,
                                              const PageReader& reader) const {
  Match match;
  const Path path = walk(top, tokens, reader.as);
  for (size_t n_whole = path.size();; --n_whole) {
    const PrefixNode* last = n_whole > 0 ? path[n_whole - 1] : nullptr;
    match.last = last;
    match.n_whole = static_cast<uint32_t>(n_whole);
    const auto rest = page_at(tokens, n_whole);
    if (find_tail_snapshot(match, last ? *last : top, rest, reader) &&
        covers(path, n_whole * kPageTokens + match.n_head)) {
      return match;
    }
    match.head = match.snapshot = nullptr;
    match.n_head = 0;
    if (n_whole == 0) return match;
    if (last->snapshot.empty() || !covers(path, n_whole * kPageTokens)) continue;
    match.snapshot = last;
    return match;
  }
}

// Finds, among the tails that are a prefix of `rest` and have a snapshot, the longest one whose own
// pages, or those of a sibling that begins with it, are cached.
bool PrefixIndex::find_tail_snapshot(Match& match, const PrefixNode& above,
                                     std::span<const TokenId> rest,
                                     const PageReader& reader) const {
  constexpr uint32_t kLookedAt = 64;
  ChildrenByMatch children(above, reader.as, rest);
  ChildrenByMatch::Child with_pages = children.next();  // the one that shares most tokens
  while (with_pages.n_shared > 0 && !with_pages.node->is_whole()) with_pages = children.next();
  ChildrenByMatch tails(above, reader.as, rest);
  auto tail = tails.next();
  for (uint32_t n = 0; tail.n_shared > 0 && n < kLookedAt; tail = tails.next(), ++n) {
    const bool is_all = tail.n_shared == tail.node->tokens.size();
    if (!is_all || tail.node->snapshot.empty() || tail.n_shared > with_pages.n_shared) continue;
    match.snapshot = tail.node;
    match.head = with_pages.node;
    match.n_head = tail.n_shared;
    return true;
  }
  return false;
}

const PrefixNode* PrefixIndex::attach(const TokenPages& entry, std::span<const PageId> snapshot,
                                      SnapshotKind kind, EvictionRank eviction_rank) {
  CHECK(!snapshot.empty() && entry.tokens.size() < kPageTokens);
  PrefixNode* parent = node_of(entry.root, entry.parent);
  const bool is_behind_parent = entry.tokens.empty();
  if (!parent && !is_behind_parent) parent = parent_of(entry);
  if (!parent || (is_behind_parent && !parent->parent)) return nullptr;
  PrefixNode* node = is_behind_parent ? parent : node_for(*parent, entry);
  if (!node || !node->snapshot.empty()) {
    drop_if_empty(node ? node : parent);
    return nullptr;
  }
  node->snapshot_kind = kind;
  set_snapshot(*node, snapshot);
  for (const PageId page : snapshot) {
    CHECK(!knows(page));
    place(page) = {.node = node,
                   .group = static_cast<uint32_t>(rules_.size()),
                   .n_uses = eviction_rank == EvictionRank::kFound ? 2u : 1u,
                   .last_use = ++n_ticks_,
                   .n_pins = 0,
                   .is_in_use = true};
    if (eviction_rank == EvictionRank::kFound) ++n_hot_;
  }
  count_snapshot(*node, 1);
  ++n_changes_;
  learn(*node, entry.known);
  return node;
}

const PrefixNode* PrefixIndex::know_snapshot(const TokenPages& entry) {
  const bool is_behind_parent = entry.tokens.empty();
  const auto it =
      nodes_.find(is_behind_parent ? entry.parent : key_of_(entry.parent, entry.tokens));
  if (it == nodes_.end() || it->second->snapshot.empty()) return nullptr;
  PrefixNode& node = *it->second;
  if (!is_behind_parent && !std::ranges::equal(node.tokens, entry.tokens)) return nullptr;
  if (!node_of(entry.root, node.key)) return nullptr;
  learn(node, entry.known);
  return &node;
}

void PrefixIndex::outdate_snapshot(const PageKey& key) {
  const auto it = nodes_.find(key);
  if (it == nodes_.end() || it->second->snapshot.empty()) return;
  const PrefixNode& node = *it->second;
  if (node.snapshot_kind == SnapshotKind::kBranch || node.snapshot_kind == SnapshotKind::kGrid) {
    return;
  }
  for (const PageId page : node.snapshot) outdate(page);
}

// Ranks the only other branch at the node's parent first for eviction, if it is short and of the
// same tenant: the conversation now continues with the node. Examples are an answer that is
// generated again, and reasoning that the next prompt leaves out.
void PrefixIndex::outdate_branch_beside(const PrefixNode& node) {
  const auto& siblings = node.parent->children;
  if (resume_ == Resume::kAtSnapshots || siblings.size() != 2) return;
  const PrefixNode& other = *(siblings[0] == &node ? siblings[1] : siblings[0]);
  if (other.known != node.known || other.tenant != node.tenant) return;
  uint32_t n_left = node.depth / kShortBranch;
  const auto visit_pages = [&](const auto& visit) {
    for (const PrefixNode* at = &other; at; at = at->children.empty() ? nullptr : at->children[0]) {
      if (at->children.size() > 1 || n_left-- == 0) return false;
      for (const auto& page : at->pages) {
        if (page && !visit(*page)) return false;
      }
    }
    return true;
  };
  if (!visit_pages([&](PageId page) { return !place(page).is_in_use; })) return;
  n_left = node.depth / kShortBranch;
  visit_pages([&](PageId page) {
    outdate(page);
    return true;
  });
}

// Makes the page the first to be evicted.
void PrefixIndex::outdate(PageId page) {
  change(page, [](Place& p) {
    p.n_uses = 0;
    p.last_use = 0;
  });
}

// Applies a change and updates the nodes' pages in the order of eviction.
template <class Change>
void PrefixIndex::change_nodes(std::span<PrefixNode* const> nodes, const Change& apply) {
  const auto for_candidates = [&](auto&& visit) {
    for (const PrefixNode* node : nodes) {
      for (const auto& page : node->pages) {
        if (page && is_candidate(*page)) visit(*page);
      }
    }
  };
  for_candidates([&](PageId page) { drop_candidate(page); });
  apply();
  for_candidates([&](PageId page) { add_candidate(page); });
}

void PrefixIndex::set_snapshot(PrefixNode& node, std::span<const PageId> pages) {
  PrefixNode* const nodes[] = {&node};
  change_nodes(nodes, [&] { node.snapshot.assign(pages.begin(), pages.end()); });
}

// The pages that a snapshot needs are kept as long as the snapshot: those of its own node and, if
// that is a tail, those of its ancestors. A tail may have no pages of its own: then a sibling has
// them.
void PrefixIndex::count_snapshot(PrefixNode& node, int n) {
  const auto count_in = [&](PrefixNode& needed) {
    for (size_t g = 0; g < rules_.size(); ++g) {
      const auto count = [&](auto&&...) { needed.n_below[g] += static_cast<uint32_t>(n); };
      if (needed.pages[g]) {
        change(*needed.pages[g], count);
      } else {
        count();
      }
    }
  };
  count_in(node);
  if (node.tokens.size() == kPageTokens) return;
  count_in(*node.parent);
  count_tail_snapshot(*node.parent, n);
}

// Adding the first tail snapshot and removing the last one changes the class of all siblings.
void PrefixIndex::count_tail_snapshot(PrefixNode& parent, int n) {
  const uint32_t n_now = parent.n_tail_snapshots + static_cast<uint32_t>(n);
  const bool is_other_class = (n_now == 0) != (parent.n_tail_snapshots == 0);
  const std::span<PrefixNode* const> children = parent.children;
  change_nodes(is_other_class ? children : children.first(0),
               [&] { parent.n_tail_snapshots = n_now; });
}

void PrefixIndex::erase_snapshot(PrefixNode& node) {
  for (const PageId page : node.snapshot) pins_.forget(page);
  apply_pins();
  for (const PageId page : node.snapshot) change(page, [](Place& p) { p = {}; });
  set_snapshot(node, {});
  count_snapshot(node, -1);
  drop_if_empty(&node);
}

}  // namespace kvik
