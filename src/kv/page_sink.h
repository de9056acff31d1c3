#pragma once

#include "kv/page_pool.h"

namespace kvik {

// Receives events about the pages of a KvCache. Engine thread only; must not block.
class PageSink {
 public:
  virtual ~PageSink() = default;
  // The page can be hit from now on; its bytes do not change as long as that is so.
  virtual void on_sealed(PageId page) = 0;
  // No page is free: leases held for waiting requests should be released.
  virtual void on_shortage() = 0;
};

}  // namespace kvik
