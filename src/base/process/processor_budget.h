#pragma once

#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace kvik {

// Returns the processor time of the calling thread so far.
Duration thread_time();

// Budget of processor time per tenant: a share of one core, and up to `burst` at once after a
// pause. Work in progress may overdraw it. Remembers at most kMaxAccounts tenants: those with the
// most time left are forgotten first. Not thread-safe.
class ProcessorBudget {
 public:
  struct Rule {
    double share;  // share of one core
    Duration burst;
  };
  static constexpr size_t kMaxAccounts = 4096;

  explicit ProcessorBudget(Rule rule) : rule_(rule) {}

  // Subtracts `time` from the budget of the tenant.
  void charge(const std::string& tenant, Duration time, TimePoint now);
  // Returns the remaining time; negative if the budget is overdrawn.
  Duration left(const std::string& tenant, TimePoint now) const;
  // Returns the cost of the tenant's most expensive charge, reduced by a tenth for each later
  // charge.
  Duration recent_cost(const std::string& tenant) const;

 private:
  void make_room(TimePoint now);

  struct Account {
    Duration left;
    TimePoint at;
    Duration cost{};
  };
  const Rule rule_;
  std::unordered_map<std::string, Account> accounts_;
};

}  // namespace kvik
