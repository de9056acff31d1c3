#pragma once

#include <algorithm>
#include <span>

#include "base/mutex.h"
#include "base/result.h"

namespace kvik::cuda {

// A piece of pinned memory that small copies go through, so that nobody waits for them: one behind
// the other, and from the beginning again once all were waited for. Any thread.
class StagingRing {
 public:
  explicit StagingRing(std::span<std::byte> memory) : memory_(memory) {}

  // Large ones would have others wait.
  bool fits(size_t n_bytes) const { return n_bytes <= memory_.size() / 4; }

  // Puts the bytes into a place and calls start(place), which hands a copy from there to the
  // device; before, where there is no room, wait(), for all copies so far.
  template <class Wait, class Start>
  Result<void> copy(std::span<const std::byte> host, const Wait& wait, const Start& start) {
    const MutexLock lock(mutex_);
    if (host.size() > memory_.size() - n_used_) {
      TRY(wait());
      n_used_ = 0;
    }
    const std::span<std::byte> place = memory_.subspan(n_used_, host.size());
    n_used_ += host.size();
    std::ranges::copy(host, place.begin());
    return start(place);
  }

 private:
  const std::span<std::byte> memory_;
  Mutex mutex_;
  size_t n_used_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvik::cuda
