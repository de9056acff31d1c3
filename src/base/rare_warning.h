#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <string>

#include "base/log.h"

namespace kvik::log {

// Rate limit for a warning that clients can cause as often as they like: one per second, with the
// number of suppressed ones. Use one static object per place. Any thread.
class RareWarning {
 public:
  using Clock = std::chrono::steady_clock;

  template <class... Values>
  void operator()(fmt::format_string<const Values&...> format, const Values&... values) {
    const auto n_left_out = due(Clock::now());
    if (!n_left_out) return;
    try {
      warn("{}{}", fmt::format(format, values...),
           *n_left_out > 0 ? fmt::format(" (and {} more like it)", *n_left_out) : std::string());
    } catch (const std::bad_alloc&) {  // often the reason for the warning; continuing matters more
    }
  }

  // Returns the number of warnings suppressed since the last one if a warning may be written now.
  std::optional<uint64_t> due(Clock::time_point now) {
    constexpr Clock::duration kPause = std::chrono::seconds(1);
    const int64_t ticks = now.time_since_epoch().count();
    int64_t next = next_.load();
    if (ticks < next || !next_.compare_exchange_strong(next, ticks + kPause.count())) {
      ++n_left_out_;
      return std::nullopt;
    }
    return n_left_out_.exchange(0);
  }

 private:
  std::atomic<int64_t> next_{INT64_MIN};
  std::atomic<uint64_t> n_left_out_{0};
};

}  // namespace kvik::log
