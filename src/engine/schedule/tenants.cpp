#include "engine/schedule/tenants.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace kvik {

double TenantLedger::least_served() const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.n_requests > 0) least = std::min(least, tenant.served);
  }
  return least == std::numeric_limits<double>::infinity() ? idle_service_ : least;
}

Tenant& TenantLedger::enter(const std::string& name) {
  if (tenants_.size() >= kMaxTenants && !tenants_.contains(name)) forget_idle();
  Tenant& tenant = tenants_[name];
  if (tenant.n_requests == 0) {
    tenant.served = std::max({tenant.served, least_served() - Tenant::kQuantum, 0.0});
    ++n_present_;
  }
  ++tenant.n_requests;
  return tenant;
}

void TenantLedger::leave(Tenant& tenant) {
  CHECK(tenant.n_requests > 0);
  if (--tenant.n_requests > 0) return;
  idle_service_ = std::max(idle_service_, tenant.served);
  --n_present_;
}

// Forgets idle tenants below the floor, which would return at the floor anyway. Forgets the other
// idle ones only if that does not free enough.
void TenantLedger::forget_idle() {
  const double floor = least_served();
  std::erase_if(tenants_, [&](const auto& entry) {
    return entry.second.n_requests == 0 && entry.second.served <= floor;
  });
  if (tenants_.size() < kMaxTenants) return;
  std::erase_if(tenants_, [](const auto& entry) { return entry.second.n_requests == 0; });
}

}  // namespace kvik
