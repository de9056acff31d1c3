#pragma once

#include "base/clock.h"

namespace kvik {

// Stands still until a test moves it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(TimePoint start = {}) : now_(start) {}
  TimePoint now() const override { return now_; }
  void advance(Duration by) { now_ += by; }
  void set(TimePoint now) { now_ = now; }

 private:
  TimePoint now_;
};

}  // namespace kvik
