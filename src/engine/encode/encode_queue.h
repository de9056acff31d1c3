#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/queued_request.h"

namespace kvik {

// The requests that wait for a batch. The next one is that of the tenant that has been served the
// fewest tokens; a tenant's own requests come by priority, then in the order of arrival. Priorities
// of different tenants are compared first if the requests say so (Request::PriorityScope). One
// thread.
class EncodeQueue {
 public:
  // Changes nothing if there is no memory (std::bad_alloc).
  void add(QueuedRequest job);
  // Removes the request; std::nullopt if it does not wait.
  std::optional<QueuedRequest> remove(RequestId id);

  // Removes and returns requests whose tokens fit into n_rows, n_jobs at most. A request that does
  // not fit ends the batch, so that long texts do not wait forever. Changes nothing if there is no
  // memory (std::bad_alloc).
  std::vector<QueuedRequest> take_batch(uint32_t n_rows, uint32_t n_jobs);
  // Removes all.
  std::vector<QueuedRequest> take_all();

  bool empty() const { return n_jobs_ == 0; }
  uint32_t n_jobs() const { return n_jobs_; }
  uint64_t n_tokens() const { return n_tokens_; }

 private:
  struct Tenant {
    std::deque<QueuedRequest> jobs;  // by priority
    uint64_t n_served = 0;           // tokens
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;

  Tenants::iterator next_tenant();
  QueuedRequest take_first(Tenants::iterator tenant);

  Tenants tenants_;  // those with waiting requests
  uint32_t n_jobs_ = 0;
  uint64_t n_tokens_ = 0;
};

}  // namespace kvik
