#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kvik {

// The loaded share of a model's weights. Any thread.
class LoadProgress {
 public:
  void set(uint64_t n_done, uint64_t n_all) {
    share_.store(
        n_all == 0 ? 0 : static_cast<double>(std::min(n_done, n_all)) / static_cast<double>(n_all));
  }

  // Returns the share, from 0 to 1.
  double share() const { return share_.load(); }

 private:
  std::atomic<double> share_ = 0;
};

}  // namespace kvik
