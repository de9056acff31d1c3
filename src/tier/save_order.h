#pragma once

#include <vector>

#include "base/clock.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"

namespace kvik {

// A page in memory that a tier may store.
struct SavablePage {
  PageId id{};
  PageKey parent, key;
  TimePoint last_used;
};

// Returns the pages in an order for a tier of limited size, which evicts what was stored first: the
// most recently used prefix comes last. In a prefix parents come before their children.
std::vector<PageId> save_order(const std::vector<SavablePage>& pages);

}  // namespace kvik
