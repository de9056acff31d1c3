#include "engine/schedule/running_set.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/schedule/own_priority.h"

namespace kvik {
namespace {

// The order of preemption: the last sequence is preempted first.
auto preemption_key(const Sequence& sequence) {
  return std::tuple(sequence.priority_among_all(), sequence.run.preemption_order);
}

auto preemption_key_of(const std::unique_ptr<Sequence>& sequence) {
  return preemption_key(*sequence);
}

}  // namespace

void RunningSet::add(std::unique_ptr<Sequence> sequence, uint64_t step) {
  sequence->run = {.preemption_order = sequence->queue.arrival, .admitted_step = step};
  ++sequence->tenant->n_running;
  const Tenant& tenant = *sequence->tenant;
  const auto place =
      std::ranges::upper_bound(sequences_, preemption_key(*sequence), {}, preemption_key_of);
  sequences_.insert(place, std::move(sequence));
  if (tenant.n_ranked > 0) assign_preemption_order(tenant);
}

// Redistributes the positions of a tenant's running sequences, so that the one with the highest
// priority is preempted last.
void RunningSet::assign_preemption_order(const Tenant& tenant) {
  in_order_.clear();
  std::vector<uint64_t> orders;
  for (const auto& running : sequences_) {
    if (running->tenant != &tenant) continue;
    in_order_.push_back(running.get());
    orders.push_back(running->run.preemption_order);
  }
  std::ranges::sort(in_order_, {}, [](const Sequence* running) {
    return std::tuple(running->priority_among_all(), running->queue.arrival);
  });
  order_within_tenants(in_order_);
  for (size_t i = 0; i < orders.size(); ++i) in_order_[i]->run.preemption_order = orders[i];
  std::ranges::sort(sequences_, {}, preemption_key_of);
}

std::unique_ptr<Sequence> RunningSet::take_last() { return take_at(sequences_.end() - 1); }

std::unique_ptr<Sequence> RunningSet::take(const Sequence& sequence) {
  const auto place = std::ranges::find(sequences_, &sequence, &std::unique_ptr<Sequence>::get);
  return place == sequences_.end() ? nullptr : take_at(place);
}

std::unique_ptr<Sequence> RunningSet::take_at(Sequences::iterator place) {
  std::unique_ptr<Sequence> taken = std::move(*place);
  sequences_.erase(place);
  --taken->tenant->n_running;
  return taken;
}

}  // namespace kvik
