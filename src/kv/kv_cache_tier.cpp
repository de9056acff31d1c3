#include <algorithm>

#include "base/check.h"
#include "kv/kv_cache.h"

// What slower tiers ask of the cache and bring to it.
namespace kvik {

std::optional<PageLease> KvCache::insert_fetched(const TierPage& page, const IncomingBytes& bytes,
                                                 const PrefixQuery& query) {
  CHECK(page.group < layout_.n_groups() && bytes.size() == layout_.page_bytes);
  if (n_available() == 0) return std::nullopt;
  const KnownBy known = sharing_ == Sharing::kAll ? KnownBy::kAll : page.known;
  PageLease own = take(page.group);
  bytes.place(address(own.id()));
  node_pages_.assign(layout_.n_groups(), std::nullopt);
  node_pages_[page.group] = own.id();
  const PrefixNode* node = index_.insert({.root = page.root,
                                          .parent = page.parent,
                                          .tokens = page.tokens,
                                          .pages = node_pages_,
                                          .tenant = query.tenant,
                                          .known = known,
                                          .adapter = query.adapter});
  if (!node || !node->pages[page.group]) return std::nullopt;
  if (node->pages[page.group] != own.id()) return lease(*node->pages[page.group]);
  pool_.seal(own.id());
  log_stored(own.id());
  PageStory& story = stories_[static_cast<uint32_t>(own.id())];
  story.is_fetched = story.is_saved = true;
  return own;
}

void KvCache::note_saved(PageId id) {
  stories_[static_cast<uint32_t>(id)].is_saved = true;
  pool_.note_change(id);
}

std::optional<TierPage> KvCache::describe(PageId id) const {
  const PrefixNode* node = index_.node_with(id);
  if (!node) return std::nullopt;
  const PrefixNode* root = node;
  while (root->parent) root = root->parent;
  const auto piece = std::ranges::find(node->snapshot, id);
  const bool is_piece = piece != node->snapshot.end();
  return TierPage{
      .root = root->key,
      .parent = node->parent->key,
      .key = node->key,
      .group = is_piece ? kSnapshotGroup + static_cast<uint32_t>(piece - node->snapshot.begin())
                        : pool_.group(id),
      .tokens = node->tokens,
      // What everybody found was of nobody in particular: no key finds it later.
      .known = sharing_ == Sharing::kAll ? KnownBy::kNobody : node->known};
}

}  // namespace kvik
