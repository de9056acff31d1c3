#pragma once

#include "kv/page_pool.h"

namespace kvik {

// Receives events about the pages of a KvCache. Engine thread only; must not block.
class PageSink {
 public:
  virtual ~PageSink() = default;
  // Called when a page becomes available for hits. Its bytes do not change as long as it is
  // available.
  virtual void on_sealed(PageId page) = 0;
  // Called when no page is free. Leases held for waiting requests should be released.
  virtual void on_shortage() = 0;
};

}  // namespace kvik
