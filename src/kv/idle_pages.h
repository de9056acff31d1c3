#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/clock.h"
#include "kv/page_pool.h"

namespace kvik {

// Counts the cached pages by the second of their last use, so that the size of the recently used
// part of the cache is known. Engine thread only.
class IdlePages {
 public:
  explicit IdlePages(uint32_t n_pages) : seconds_(n_pages, kNone) {}

  // Records that a cached page was used, or that a request waits for it.
  void note_use(PageId page, TimePoint now) {
    const int64_t second = second_of(now);
    int64_t& last = seconds_[static_cast<uint32_t>(page)];
    if (last == second) return;
    remove(page);
    last = second;
    ++counts_[second];
    ++n_;
  }
  // Records that a page is leased or evicted.
  void remove(PageId page) {
    int64_t& last = seconds_[static_cast<uint32_t>(page)];
    if (last == kNone) return;
    const auto count = counts_.find(last);
    if (--count->second == 0) counts_.erase(count);
    last = kNone;
    --n_;
  }
  bool holds(PageId page) const { return seconds_[static_cast<uint32_t>(page)] != kNone; }

  // Returns the number of pages whose last use was before `since`, rounded up to a second.
  uint32_t n_unused_since(TimePoint since) const {
    uint32_t n = n_;
    for (auto it = counts_.lower_bound(second_of(since)); it != counts_.end(); ++it) {
      n -= it->second;
    }
    return n;
  }

 private:
  static constexpr int64_t kNone = INT64_MIN;
  static int64_t second_of(TimePoint time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  }

  std::vector<int64_t> seconds_;        // by page; kNone: not cached
  std::map<int64_t, uint32_t> counts_;  // by second
  uint32_t n_ = 0;
};

}  // namespace kvik
