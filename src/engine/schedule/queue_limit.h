#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/result.h"

namespace kvik {

class QueueLimit;

// A place among the requests that wait for their first step. The destructor releases it.
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

// Limits the number of waiting requests. If there are several tenants, each may take at most three
// times the free places: a tenant that floods the queue gets three quarters, two get three sevenths
// each, and there is room for the next tenant. Any thread; must outlive its places.
class QueueLimit {
 public:
  // n_tenants is the number of configured tenants.
  explicit QueueLimit(uint32_t n_places, uint32_t n_tenants = 1)
      : n_places_(n_places), n_tenants_(n_tenants) {}

  // Takes a place for a request of the tenant. Errors: kExhausted if there is none for this tenant.
  Result<QueuePlace> enter(const std::string& tenant);
  // Returns the error with which enter() would reject any tenant now.
  Result<void> check() const;

 private:
  friend class QueuePlace;
  static constexpr size_t kMaxTenants = 4096;  // remembered

  Result<void> check_full() const REQUIRES(mutex_);

  const uint32_t n_places_;
  const uint32_t n_tenants_;
  mutable Mutex mutex_;
  uint32_t n_waiting_ GUARDED_BY(mutex_) = 0;
  // Includes tenants without waiting requests.
  std::unordered_map<std::string, uint32_t> by_tenant_ GUARDED_BY(mutex_);
};

}  // namespace kvik
