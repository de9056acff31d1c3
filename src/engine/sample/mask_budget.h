#pragma once

#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace kvik {

// Processor time that each tenant may spend on its constraints: kShare of one core, and up to
// kBurst at once after a pause. A tenant may overdraw it by the work in progress. Not thread-safe.
class MaskBudget {
 public:
  static constexpr double kShare = 0.25;
  static constexpr Duration kBurst = std::chrono::milliseconds(250);

  void charge(const std::string& tenant, Duration time, TimePoint now);
  // Returns the time that is left; negative if the budget is overdrawn.
  Duration left(const std::string& tenant, TimePoint now) const;

 private:
  static constexpr size_t kMost = 4096;  // tenants; the rest would be untouched budgets
  struct Account {
    Duration left = kBurst;
    TimePoint at;
  };
  std::unordered_map<std::string, Account> accounts_;
};

}  // namespace kvik
