#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvik {

// What the HTTP side did since its start. Any thread.
class HttpCounts {
 public:
  static constexpr unsigned kFirstStatus = 100;
  static constexpr unsigned kEndStatus = 600;

  // A request's status as the log tells it; 499: the client left first. Others than three digits
  // are left out.
  void add_response(unsigned status) {
    if (status >= kFirstStatus && status < kEndStatus) ++by_status_[status - kFirstStatus];
  }
  uint64_t responses(unsigned status) const { return by_status_[status - kFirstStatus]; }

  std::atomic<uint64_t> connections{0};   // open now
  std::atomic<uint64_t> turned_away{0};   // connections over the limit
  std::atomic<uint64_t> slow_readers{0};  // streams ended because nobody read them
  std::atomic<uint64_t> unlogged{0};      // requests that the access log had no time for

 private:
  std::array<std::atomic<uint64_t>, kEndStatus - kFirstStatus> by_status_{};
};

}  // namespace kvik
