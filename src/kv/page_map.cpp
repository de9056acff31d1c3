#include "kv/page_map.h"

#include <algorithm>

namespace kvik {

void PageMap::collect(Extent extent, std::span<const PageTable* const> tables,
                      std::vector<PageCell>& out) {
  const PagePool& pool = kv_.pages().pool();
  const uint64_t n_seen = extent == Extent::kAll ? 0 : n_changes_seen_;
  if (pool.n_changes() == n_seen) return;
  link_unsealed(tables);
  for (uint32_t i = 0; i < pool.n_pages(); ++i) {
    if (pool.last_change(PageId{i}) <= n_seen) continue;
    if (extent == Extent::kAll && pool.state(PageId{i}) == PageState::kFree) continue;
    out.push_back(describe(PageId{i}));
  }
  n_changes_seen_ = pool.n_changes();
}

PageCell PageMap::describe(PageId page) const {
  const PagePool& pool = kv_.pages().pool();
  PageCell cell{.page = page,
                .state = pool.state(page),
                .group = pool.group(page),
                .n_owners = pool.n_owners(page),
                .n_tokens = 0,
                .parent = {},
                .history = kv_.pages().history(page),
                .tenant = 0};
  if (cell.state == PageState::kFree) return cell;
  if (cell.state == PageState::kLeased) {
    cell.parent = parents_[static_cast<uint32_t>(page)];
    cell.tenant = tenants_[static_cast<uint32_t>(page)];
  } else if (const PrefixNode* node = kv_.pages().index().node_with(page)) {
    cell.n_tokens = static_cast<uint32_t>(node->tokens.size());
    cell.parent =
        kv_.pages().index().is_of_snapshot(page) ? std::nullopt : node->parent->pages[cell.group];
    cell.tenant = node->tenant;
  }
  return cell;
}

// Only pages after the sealed ones: the index knows the parents of sealed pages.
void PageMap::link_unsealed(std::span<const PageTable* const> tables) {
  parents_.assign(kv_.n_pages(), std::nullopt);
  tenants_.assign(kv_.n_pages(), 0);
  for (const PageTable* table : tables) {
    for (uint32_t g = 0; g < table->n_groups(); ++g) {
      for (uint32_t i = table->n_sealed(); i < table->n_pages(g); ++i) {
        if (!table->holds(g, i)) continue;
        tenants_[static_cast<uint32_t>(table->page(g, i))] = table->owner.tenant;
        if (i == 0 || !table->holds(g, i - 1)) continue;
        parents_[static_cast<uint32_t>(table->page(g, i))] = table->page(g, i - 1);
      }
    }
  }
}

}  // namespace kvik
