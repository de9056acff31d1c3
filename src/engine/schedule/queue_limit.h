#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"

namespace kvik {

class QueueLimit;

// A request's place among those that wait for their first step. Gives itself back.
class QueuePlace {
 public:
  QueuePlace() = default;
  QueuePlace(QueuePlace&& other) noexcept
      : limit_(std::exchange(other.limit_, nullptr)), n_of_tenant_(other.n_of_tenant_) {}
  QueuePlace& operator=(QueuePlace&& other) noexcept {
    std::swap(limit_, other.limit_);
    std::swap(n_of_tenant_, other.n_of_tenant_);
    return *this;
  }
  ~QueuePlace();

 private:
  friend class QueueLimit;
  QueuePlace(QueueLimit& limit, uint32_t& n_of_tenant)
      : limit_(&limit), n_of_tenant_(&n_of_tenant) {}

  QueueLimit* limit_ = nullptr;
  uint32_t* n_of_tenant_ = nullptr;
};

// How many requests may wait. Where there are several tenants, none may have more than three times
// the places that are left: one that floods gets three quarters, two get three sevenths each, and
// there is room for whoever comes next. Any thread; outlives its places.
class QueueLimit {
 public:
  // n_tenants: that are known to come.
  explicit QueueLimit(uint32_t n_places, uint32_t n_tenants = 1)
      : n_places_(n_places), n_tenants_(n_tenants) {}

  // Errors: kExhausted where no place is left for this tenant.
  Result<QueuePlace> enter(const std::string& tenant);
  // Why nobody could enter now.
  Result<void> check() const;

 private:
  friend class QueuePlace;
  static constexpr size_t kMostTenants = 4096;  // remembered

  Result<void> check_full() const REQUIRES(mutex_);

  const uint32_t n_places_;
  const uint32_t n_tenants_;
  mutable Mutex mutex_;
  uint32_t n_waiting_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, uint32_t> by_tenant_
      GUARDED_BY(mutex_);  // those with none waiting too
};

}  // namespace kvik
