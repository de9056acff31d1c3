#include "engine/schedule/queue_limit.h"

#include <fmt/format.h>

namespace kvik {

QueuePlace::~QueuePlace() {
  if (!limit_) return;
  const MutexLock lock(limit_->mutex_);
  --limit_->n_waiting_;
  --*n_of_tenant_;
}

Result<void> QueueLimit::check() const {
  const MutexLock lock(mutex_);
  return check_full();
}

Result<void> QueueLimit::check_full() const {
  if (n_waiting_ < n_places_) return {};
  return fail(ErrorCode::kExhausted,
              fmt::format("the queue is full with {} requests; try again later", n_waiting_));
}

Result<QueuePlace> QueueLimit::enter(const std::string& tenant) {
  const MutexLock lock(mutex_);
  TRY(check_full());
  if (by_tenant_.size() >= kMaxTenants && !by_tenant_.contains(tenant)) {
    std::erase_if(by_tenant_, [](const auto& entry) { return entry.second == 0; });
  }
  uint32_t& n = by_tenant_[tenant];
  const bool is_shared = n_tenants_ > 1 || by_tenant_.size() > 1;
  if (is_shared && n >= uint64_t{n_places_ - n_waiting_} * 3) {
    return fail(
        ErrorCode::kExhausted,
        fmt::format(
            "you already have {} waiting requests, and the queue of {} is shared; try again later",
            n, n_places_));
  }
  ++n_waiting_;
  ++n;
  return QueuePlace(*this, n);
}

}  // namespace kvik
