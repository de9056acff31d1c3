#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace kvik {

// The tenants that the operator configured, each with the hash that marks its pages in memory and
// in tiers. The hash is keyed, so that a reader of a tier cannot tell which tenant a page belongs
// to, and it is the same in every process that shares the pages.
using TenantMarks = std::unordered_map<std::string, uint64_t>;

// A tenant, with the service that it has received.
struct Tenant {
  double served = 0;        // weighted tokens: the virtual counter
  uint32_t n_requests = 0;  // waiting and running requests
  uint32_t n_running = 0;
  uint32_t n_ranked = 0;  // requests with a priority among the tenant's own
  bool has_held = false;  // a conversation that was evicted is held (WorkingSet)

  // Tenants with the same level are ordered by other rules. Alternating between tenants whose
  // counters differ by less than kQuantum would only delay all of them.
  static constexpr double kQuantum = 256;
  uint64_t level() const { return static_cast<uint64_t>(served / kQuantum); }

  // The weight of a token is about the time that it takes. Generated tokens weigh more because they
  // come in small batches.
  void charge_computed(uint32_t n_tokens) { served += n_tokens; }
  void charge_cached(uint32_t n_tokens) { served += 0.1 * n_tokens; }
  void charge_generated(uint32_t n_tokens) { served += 2.0 * n_tokens; }
};

// Counts the service that each tenant has received: the virtual token counter of Sheng et al. 2024
// (Fairness in Serving Large Language Models). The tenant with the smallest counter goes first. A
// tenant that returns resumes at no less than a quantum below the smallest counter of the active
// tenants, so idling earns no credit.
class TenantLedger {
 public:
  // n_tenants is the number of configured tenants.
  explicit TenantLedger(uint32_t n_tenants = 1) : n_configured_(n_tenants) {}

  // Count a request of the tenant that arrives or leaves. The reference is valid while the tenant
  // has a request.
  Tenant& enter(const std::string& name);
  void leave(Tenant& tenant);

  // Returns true if more than one tenant is known: configured, or seen before. Until a second one
  // is known, a server without configured tenants may be used by one alone.
  bool is_shared() const { return n_configured_ > 1 || tenants_.size() > 1; }
  // Returns true if several tenants have requests now.
  bool has_several_tenants() const { return n_present_ > 1; }

 private:
  static constexpr size_t kMaxTenants =
      4096;  // tenants remembered, so that names cannot fill the memory
  double least_served() const;
  void forget_idle();

  const uint32_t n_configured_;
  std::unordered_map<std::string, Tenant> tenants_;
  size_t n_present_ = 0;     // tenants with requests
  double idle_service_ = 0;  // largest counter of any tenant at the time it went idle
};

}  // namespace kvik
