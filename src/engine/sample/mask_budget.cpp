#include "engine/sample/mask_budget.h"

#include <algorithm>

namespace kvik {

Duration MaskBudget::left(const std::string& tenant, TimePoint now) const {
  const auto found = accounts_.find(tenant);
  if (found == accounts_.end()) return kBurst;
  const auto earned = std::chrono::duration_cast<Duration>((now - found->second.at) * kShare);
  return std::min<Duration>(kBurst, found->second.left + earned);
}

void MaskBudget::charge(const std::string& tenant, Duration time, TimePoint now) {
  const Duration left_now = left(tenant, now);
  if (accounts_.size() >= kMost && !accounts_.contains(tenant)) {
    std::erase_if(accounts_, [&](const auto& entry) { return left(entry.first, now) >= kBurst; });
  }
  accounts_[tenant] = {left_now - time, now};
}

}  // namespace kvik
