#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/kv_cache.h"
#include "kv/page_cell.h"
#include "kv/page_table.h"

namespace kvik {

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
