#include "kv/prefix_index.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/kv_type.h"

namespace kvik {
namespace {

uint32_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto [end, ignored] = std::ranges::mismatch(a, b);
  return static_cast<uint32_t>(end - a.begin());
}

}  // namespace

std::span<const PageId> PrefixIndex::children(const PageKey& parent) const {
  const auto it = children_.find(parent);
  return it == children_.end() ? std::span<const PageId>() : it->second;
}

// The page with exactly these tokens below `parent`. Two lists may share a key in theory: the ids
// decide.
std::optional<PageId> PrefixIndex::find_whole(const PageKey& parent,
                                              std::span<const TokenId> tokens) const {
  const auto it = by_key_.find(child_key(parent, tokens));
  if (it == by_key_.end()) return std::nullopt;
  const Node& node = nodes_.at(it->second);
  if (node.parent != parent || !std::ranges::equal(node.tokens, tokens)) return std::nullopt;
  return it->second;
}

PrefixIndex::Match PrefixIndex::find(const PageKey& root, std::span<const TokenId> tokens) const {
  Match match{.whole = {}, .last = root, .head = {}, .n_head = 0};
  while (tokens.size() >= kPageTokens) {
    const auto page = find_whole(match.last, tokens.first(kPageTokens));
    if (!page) break;
    match.whole.push_back(*page);
    match.last = nodes_.at(*page).key;
    tokens = tokens.subspan(kPageTokens);
  }
  for (const PageId child : children(match.last)) {
    const uint32_t n = common_prefix(nodes_.at(child).tokens, tokens);
    if (n <= match.n_head) continue;
    match.head = child;
    match.n_head = n;
  }
  return match;
}

PrefixIndex::Insertion PrefixIndex::insert(const PageKey& parent, std::span<const TokenId> tokens,
                                           PageId page) {
  CHECK(!tokens.empty() && tokens.size() <= kPageTokens && !nodes_.contains(page));
  for (const PageId child : children(parent)) {
    if (common_prefix(nodes_.at(child).tokens, tokens) == tokens.size()) {
      return {Outcome::kKnown, child};
    }
  }
  const PageKey key = child_key(parent, tokens);
  if (by_key_.contains(key)) return {Outcome::kCollision, page};
  Node node{.key = key,
            .parent = parent,
            .tokens = {tokens.begin(), tokens.end()},
            .last_use = ++n_ticks_,
            .n_uses = 1};
  if (const auto above = by_key_.find(parent); above != by_key_.end()) {
    leaves_.erase(nodes_.at(above->second).rank(above->second));
  }
  leaves_.insert(node.rank(page));
  by_key_.emplace(key, page);
  children_[parent].push_back(page);
  nodes_.emplace(page, std::move(node));
  return {Outcome::kNew, page};
}

void PrefixIndex::touch(PageId page) {
  Node& node = nodes_.at(page);
  const bool is_leaf = leaves_.erase(node.rank(page)) > 0;
  node.last_use = ++n_ticks_;
  ++node.n_uses;
  if (is_leaf) leaves_.insert(node.rank(page));
}

void PrefixIndex::erase(PageId page) {
  const auto it = nodes_.find(page);
  CHECK(it != nodes_.end() && leaves_.erase(it->second.rank(page)) > 0);
  const Node node = std::move(it->second);
  nodes_.erase(it);
  by_key_.erase(node.key);
  const auto siblings = children_.find(node.parent);
  std::erase(siblings->second, page);
  if (!siblings->second.empty()) return;
  children_.erase(siblings);
  if (const auto above = by_key_.find(node.parent); above != by_key_.end()) {
    leaves_.insert(nodes_.at(above->second).rank(above->second));
  }
}

}  // namespace kvik
