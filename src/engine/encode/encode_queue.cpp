#include "engine/encode/encode_queue.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace kvik {

void EncodeQueue::add(QueuedRequest job) {
  const size_t n_tokens = job.request.prompt.size();
  // A tenant that comes back must not have saved up service.
  uint64_t least = tenants_.empty() ? 0 : std::numeric_limits<uint64_t>::max();
  for (const auto& [name, tenant] : tenants_) least = std::min(least, tenant.n_served);
  if (const auto found = tenants_.find(job.request.tenant); found != tenants_.end()) {
    std::deque<QueuedRequest>& jobs = found->second.jobs;
    const auto place =
        std::ranges::upper_bound(jobs, job.request.priority, {},
                                 [](const QueuedRequest& other) { return other.request.priority; });
    jobs.insert(place, std::move(job));
  } else {
    std::string name = job.request.tenant;
    Tenant tenant{.jobs = {}, .n_served = least};
    tenant.jobs.push_back(std::move(job));
    tenants_.emplace(std::move(name), std::move(tenant));
  }
  n_tokens_ += n_tokens;
  ++n_jobs_;
}

EncodeQueue::Tenants::iterator EncodeQueue::next_tenant() {
  const auto rank = [](const Tenants::value_type& entry) {
    const Request& first = entry.second.jobs.front().request;
    const bool compares = first.ranks == Request::PriorityScope::kAllTenants;
    return std::pair(compares ? first.priority : 0, entry.second.n_served);
  };
  return std::ranges::min_element(tenants_, {}, rank);
}

QueuedRequest EncodeQueue::take_first(Tenants::iterator tenant) {
  QueuedRequest job = std::move(tenant->second.jobs.front());
  tenant->second.jobs.pop_front();
  tenant->second.n_served += job.request.prompt.size();
  if (tenant->second.jobs.empty()) tenants_.erase(tenant);
  n_tokens_ -= job.request.prompt.size();
  --n_jobs_;
  return job;
}

std::vector<QueuedRequest> EncodeQueue::take_batch(uint32_t n_rows, uint32_t n_jobs) {
  std::vector<QueuedRequest> batch;
  batch.reserve(std::min(n_jobs, n_jobs_));
  size_t n_left = n_rows;
  while (!empty() && batch.size() < n_jobs) {
    const auto tenant = next_tenant();
    const size_t n = tenant->second.jobs.front().request.prompt.size();
    if (n > n_left) break;
    n_left -= n;
    batch.push_back(take_first(tenant));
  }
  return batch;
}

std::vector<QueuedRequest> EncodeQueue::take_all() {
  return take_batch(std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint32_t>::max());
}

std::optional<QueuedRequest> EncodeQueue::remove(RequestId id) {
  for (auto tenant = tenants_.begin(); tenant != tenants_.end(); ++tenant) {
    std::deque<QueuedRequest>& jobs = tenant->second.jobs;
    const auto found = std::ranges::find(jobs, id, &QueuedRequest::id);
    if (found == jobs.end()) continue;
    QueuedRequest job = std::move(*found);
    jobs.erase(found);
    if (jobs.empty()) tenants_.erase(tenant);
    n_tokens_ -= job.request.prompt.size();
    --n_jobs_;
    return job;
  }
  return std::nullopt;
}

}  // namespace kvik
