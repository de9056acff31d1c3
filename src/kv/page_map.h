#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/page_cell.h"
#include "kv/page_table.h"

namespace kvik {

// Collects the pages of a cache that changed since the last call. Costs one comparison per page and
// more only for changed pages. In a windowed group the parent of a page may have been evicted and
// its memory reused since: such a parent was taken after its child. Engine thread only.
class PageMap {
 public:
  explicit PageMap(const KvCache& kv) : kv_(kv) {}

  enum class Extent { kChanges, kAll };

  // Appends the pages that changed since the last call in the order of their ids; kAll: all pages
  // that are not free. `tables` are those of the running sequences, which are needed to find the
  // parents of pages that are being filled.
  void collect(Extent extent, std::span<const PageTable* const> tables, std::vector<PageCell>& out);

 private:
  PageCell describe(PageId page) const;
  void link_unsealed(std::span<const PageTable* const> tables);

  const KvCache& kv_;
  uint64_t n_changes_seen_ = 0;
  // By page, for pages that are being filled.
  std::vector<std::optional<PageId>> parents_;
  std::vector<uint64_t> tenants_;
};

}  // namespace kvik
