#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/page_pool.h"
#include "kv/page_story.h"
#include "kv/page_table.h"

namespace kvik {

// One page as a map of the cache shows it: never what it holds.
struct PageCell {
  PageId page{};
  PageState state = PageState::kFree;
  uint32_t group = 0;
  uint32_t n_owners = 0;
  uint32_t n_tokens = 0;         // that others can find in it; 0 while it is being filled
  std::optional<PageId> parent;  // the page of its group with the tokens before its own
  PageStory story;
  uint64_t tenant = 0;     // a hash: who computed it
  bool is_others = false;  // all but `page` and `state` was left out, for a tenant that made it not

  friend bool operator==(const PageCell& a, const PageCell& b) {
    return a.page == b.page && a.state == b.state && a.group == b.group &&
           a.n_owners == b.n_owners && a.n_tokens == b.n_tokens && a.parent == b.parent &&
           a.story.taken == b.story.taken && a.story.last_used == b.story.last_used &&
           a.tenant == b.tenant && a.is_others == b.is_others &&
           a.story.is_saved == b.story.is_saved && a.story.is_fetched == b.story.is_fetched;
  }
};

// Tells which pages of a cache changed since it was asked last. Costs a look at one number for each
// page, and something for each page that changed. The parent of a page in a windowed group may have
// been given up since, and its memory taken by another: such a parent was taken after its child.
// Engine thread only.
class PageMap {
 public:
  explicit PageMap(const KvCache& kv) : kv_(kv) {}

  enum class Extent { kChanges, kAll };

  // Appends the pages that changed since the last call, in the order of their numbers; kAll: all
  // that are not free. `tables`: those of the running sequences, which alone know what stands
  // before a page that is being filled.
  void collect(Extent extent, std::span<const PageTable* const> tables, std::vector<PageCell>& out);

 private:
  PageCell describe(PageId page) const;
  void link_unsealed(std::span<const PageTable* const> tables);

  const KvCache& kv_;
  uint64_t n_changes_seen_ = 0;
  // Of pages that are being filled.
  std::vector<std::optional<PageId>> parents_;
  std::vector<uint64_t> tenants_;
};

}  // namespace kvik
