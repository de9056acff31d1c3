#pragma once

#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace kvik {

// Returns the processor time that the calling thread took so far: others may have the core
// meanwhile.
Duration thread_time();

// Processor time that each tenant may spend on something: a share of one core, and up to `burst` at
// once after a pause. A tenant may overdraw it by the work in progress. Not thread-safe.
class ProcessorBudget {
 public:
  struct Rule {
    double share;  // of one core
    Duration burst;
  };
  explicit ProcessorBudget(Rule rule) : rule_(rule) {}

  void charge(const std::string& tenant, Duration time, TimePoint now);
  // Returns the time that is left; negative if the budget is overdrawn.
  Duration left(const std::string& tenant, TimePoint now) const;
  // Returns what the costliest of the tenant's charges took, a tenth less for each one after it.
  Duration recent_cost(const std::string& tenant) const;

 private:
  static constexpr size_t kMost = 4096;  // tenants; the rest would be untouched budgets
  struct Account {
    Duration left;
    TimePoint at;
    Duration cost{};
  };
  const Rule rule_;
  std::unordered_map<std::string, Account> accounts_;
};

}  // namespace kvik
