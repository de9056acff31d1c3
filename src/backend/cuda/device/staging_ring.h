#pragma once

#include <algorithm>
#include <span>

#include "base/mutex.h"
#include "base/result.h"

namespace kvik::cuda {

// Pinned staging memory for small copies to the device, so that the host does not wait for them.
// Copies are placed one after another; when the memory is full, the ring waits for all of them and
// starts from the beginning. May be used on any thread.
class StagingRing {
 public:
  explicit StagingRing(std::span<std::byte> memory) : memory_(memory) {}

  // Returns whether a copy may use the ring. Large copies would make small ones wait.
  bool fits(size_t n_bytes) const { return n_bytes <= memory_.size() / 4; }

  // Copies `host` into the ring and calls start(place), which submits the copy from `place` to the
  // device. If the ring is full, first calls wait(), which must wait for all earlier copies.
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
