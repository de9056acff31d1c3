#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvik {

// Counters of the HTTP side since its start. Any thread.
class HttpCounts {
 public:
  static constexpr unsigned kFirstStatus = 100;
  static constexpr unsigned kEndStatus = 600;

  // Adds a request's status as logged; 499: the client left first. Other numbers than three digits
  // are ignored.
  void add_response(unsigned status) {
    if (status >= kFirstStatus && status < kEndStatus) ++by_status_[status - kFirstStatus];
  }
  uint64_t responses(unsigned status) const { return by_status_[status - kFirstStatus]; }

  std::atomic<uint64_t> connections{0};           // currently open
  std::atomic<uint64_t> rejected_connections{0};  // connections over the limit
  std::atomic<uint64_t> slow_readers{0};          // streams canceled because they were not read
  std::atomic<uint64_t> unlogged{0};              // requests that the access log dropped

 private:
  std::array<std::atomic<uint64_t>, kEndStatus - kFirstStatus> by_status_{};
};

}  // namespace kvik
