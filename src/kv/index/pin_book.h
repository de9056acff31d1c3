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

// Who pinned which pages until when, and which of these pins count: of each tenant's those nearest
// to the beginning of a sequence, as many as its share. So what a pin keeps never hangs on one that
// counts no more, and some part of the pages is nobody's.
//
// The share: all pages by the number of those who pin, and one more; never less than by the number
// of all tenants. Engine thread only.
class PinBook {
 public:
  explicit PinBook(uint32_t n_pages) : n_pages_(n_pages) {}

  // How many there are; 1 unless told otherwise: nobody to share with.
  void set_tenants(uint32_t n) { n_tenants_ = std::max(n, 1u); }

  // depth: pages before it in its sequence.
  void pin(PageId page, uint32_t depth, uint64_t tenant, TimePoint until);
  // The page was given up, or is not worth keeping: all pins of it end.
  void forget(PageId page);
  void expire(TimePoint now);

  // Pages of which one pin more counts since the last call, or one less, in that order.
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
    Pages counting, beyond;  // nothing beyond where the share is not used up
  };

  size_t share() const;
  void end(PageId page, uint64_t tenant);
  void settle(Tenant& tenant);
  void settle_all();

  const uint32_t n_pages_;
  uint32_t n_tenants_ = 1;
  std::map<std::pair<PageId, uint64_t>, Pinned> pins_;
  std::set<std::tuple<TimePoint, PageId, uint64_t>> by_end_;
  std::map<uint64_t, Tenant> tenants_;  // who pin
  std::vector<Change> changes_;
};

}  // namespace kvik
