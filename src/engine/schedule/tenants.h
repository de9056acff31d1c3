#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace kvik {

// The tenants that an operator named, each with the hash that marks its pages in memory and in
// tiers: keyed, so that nobody who reads a tier can tell whose they are, and the same in every
// process that is to know them again.
using TenantMarks = std::unordered_map<std::string, uint64_t>;

// One party among which work is shared out, with what was done for it.
struct Tenant {
  double served = 0;        // tokens, weighted: the virtual counter
  uint32_t n_requests = 0;  // here, waiting or running
  uint32_t n_running = 0;
  uint32_t n_ranked = 0;  // of n_requests: that have a priority among their own

  // Tenants of the same level are served in turn by other rules: short of kQuantum of difference,
  // taking turns would only make all of them late.
  static constexpr double kQuantum = 256;
  uint64_t level() const { return static_cast<uint64_t>(served / kQuantum); }

  // What a token is worth: about the time it takes. Generated ones come in small batches.
  void charge_computed(uint32_t n_tokens) { served += n_tokens; }
  void charge_found(uint32_t n_tokens) { served += 0.1 * n_tokens; }
  void charge_generated(uint32_t n_tokens) { served += 2.0 * n_tokens; }
};

// Counts what each tenant was served: the virtual token counter of Sheng et al. 2024 (Fairness in
// Serving Large Language Models). Whoever has the smallest goes first. A tenant that was away
// resumes no lower than a quantum below the least served of those present, so that idling earns no
// credit; and no tenant is owed for what others were served while it was away.
class TenantLedger {
 public:
  // A request of theirs came, or went. The reference holds while any request is here.
  Tenant& enter(const std::string& name);
  void leave(Tenant& tenant);

  // Whether there are, or were, tenants to share with.
  bool is_shared() const { return tenants_.size() > 1; }
  // Returns true while several have requests.
  bool has_company() const { return n_present_ > 1; }

 private:
  static constexpr size_t kMost = 4096;  // remembered, so that names cannot fill the memory
  double least_served() const;
  void forget_idle();

  std::unordered_map<std::string, Tenant> tenants_;
  size_t n_present_ = 0;    // that have requests
  double last_served_ = 0;  // of the one that left an empty house
};

}  // namespace kvik
