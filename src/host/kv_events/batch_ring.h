#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace kvik {

// The newest batches and their numbers, bounded in count and bytes. Slow subscribers are sent
// batches from here, and so are peers that request batches they missed. Used by one thread.
class BatchRing {
 public:
  BatchRing(size_t max_batches, size_t max_bytes)
      : max_batches_(max_batches), max_bytes_(max_bytes) {}

  // Shared, because the ring may drop a batch while it is being sent.
  using Payload = std::shared_ptr<const std::string>;

  void add(std::string payload) {
    n_bytes_ += payload.size();
    batches_.push_back(std::make_shared<const std::string>(std::move(payload)));
    while (batches_.size() > max_batches_ || (n_bytes_ > max_bytes_ && batches_.size() > 1)) {
      n_bytes_ -= batches_.front()->size();
      batches_.pop_front();
      ++begin_;
    }
  }

  // Numbers [begin, end) are available.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return begin_ + batches_.size(); }
  const Payload& at(uint64_t number) const { return batches_[number - begin_]; }
  size_t n_bytes() const { return n_bytes_; }

 private:
  const size_t max_batches_, max_bytes_;
  std::deque<Payload> batches_;
  uint64_t begin_ = 0;
  size_t n_bytes_ = 0;
};

}  // namespace kvik
