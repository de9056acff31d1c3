#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "kv/page_pool.h"

namespace kvik {

// Records pins and decides which of them count: for each tenant those closest to the beginning of a
// sequence, up to its share of the pages. A page with a counting pin therefore never depends on a
// page whose pin does not count, and some pages are always free of counting pins.
//
// The share is the number of pages divided by the number of tenants with pins plus one, but at
// least the number of pages divided by the number of all tenants. Engine thread only.
class PinTable {
 public:
  explicit PinTable(uint32_t n_pages) : n_pages_(n_pages) {}

  // Sets the number of tenants; 1 by default.
  void set_tenants(uint32_t n) { n_tenants_ = std::max(n, 1u); }

  // Pins a page until `until` for a tenant. `depth` is the number of pages before it in its
  // sequence.
  void pin(PageId page, uint32_t depth, uint64_t tenant, TimePoint until);
  // Removes all pins of a page that was evicted or is not worth keeping.
  void forget(PageId page);
  void expire(TimePoint now);

  // Returns the pages whose number of counting pins changed by one since the last call, in order.
  struct Change {
    PageId page{};
    int n_pins = 0;
  };
  std::vector<Change> take_changes() { return std::exchange(changes_, {}); }

 private:
  struct Pinned {
    uint32_t depth = 0;
    TimePoint until;
  };
  using Pages = std::set<std::pair<uint32_t, PageId>>;  // by depth
  struct Tenant {
    Pages counting, beyond;  // `beyond` is empty unless the share is used up
  };

  size_t share() const;
  void end(PageId page, uint64_t tenant);
  void settle(Tenant& tenant);
  void settle_all();

  const uint32_t n_pages_;
  uint32_t n_tenants_ = 1;
  std::map<std::pair<PageId, uint64_t>, Pinned> pins_;
  std::set<std::tuple<TimePoint, PageId, uint64_t>> by_end_;
  std::map<uint64_t, Tenant> tenants_;  // tenants with pins
  std::vector<Change> changes_;
};

}  // namespace kvik
