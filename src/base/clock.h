#pragma once

#include <chrono>

namespace kvik {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// Source of time for the engine. Tests replace it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline double to_s(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration from_ms(double ms) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
}
inline double to_ms(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace kvik
