#include "base/process/processor_budget.h"

#include <algorithm>
#include <ctime>

namespace kvik {

Duration thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Duration ProcessorBudget::left(const std::string& tenant, TimePoint now) const {
  const auto found = accounts_.find(tenant);
  if (found == accounts_.end()) return rule_.burst;
  const auto earned = std::chrono::duration_cast<Duration>((now - found->second.at) * rule_.share);
  return std::min<Duration>(rule_.burst, found->second.left + earned);
}

void ProcessorBudget::charge(const std::string& tenant, Duration time, TimePoint now) {
  const Duration left_now = left(tenant, now);
  if (accounts_.size() >= kMaxAccounts && !accounts_.contains(tenant)) make_room(now);
  Account& account = accounts_[tenant];
  account = {left_now - time, now, std::max(time, account.cost * 9 / 10)};
}

// Removes the accounts with an unused budget; if there are none, the one with the most time left,
// so that no tenant gains by the requests of others.
void ProcessorBudget::make_room(TimePoint now) {
  const auto left_of = [&](const auto& entry) { return left(entry.first, now); };
  std::erase_if(accounts_, [&](const auto& entry) { return left_of(entry) >= rule_.burst; });
  if (accounts_.size() < kMaxAccounts) return;
  accounts_.erase(std::ranges::max_element(accounts_, {}, left_of));
}

Duration ProcessorBudget::recent_cost(const std::string& tenant) const {
  const auto found = accounts_.find(tenant);
  return found == accounts_.end() ? Duration{} : found->second.cost;
}

}  // namespace kvik
