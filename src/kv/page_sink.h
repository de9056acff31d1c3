#pragma once

#include "kv/page_pool.h"

namespace kvik {

// Who wants to hear of what happens to the pages of a KvCache. Engine thread only; must not block.
class PageSink {
 public:
  virtual ~PageSink() = default;
  // A page is findable from now on, and its bytes stay as they are as long as it is.
  virtual void on_sealed(PageId page) = 0;
  // No page is free: leases that are held on somebody's behalf should end.
  virtual void on_shortage() = 0;
};

}  // namespace kvik
