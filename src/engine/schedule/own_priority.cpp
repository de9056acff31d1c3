#include "engine/schedule/own_priority.h"

#include <algorithm>
#include <tuple>

namespace kvik {

void order_within_tenants(std::vector<Sequence*>& sequences) {
  std::vector<size_t> places;
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i]->tenant->n_ranked > 0) places.push_back(i);
  }
  if (places.size() < 2) return;
  const auto owner = [](const Sequence& sequence) {
    return std::tuple(sequence.tenant, sequence.priority_among_all());
  };
  std::ranges::stable_sort(places, {}, [&](size_t i) { return owner(*sequences[i]); });
  std::vector<Sequence*> moved;
  for (const size_t i : places) moved.push_back(sequences[i]);
  std::ranges::stable_sort(moved, {}, [&](const Sequence* sequence) {
    return std::tuple(owner(*sequence), sequence->priority_among_own());
  });
  for (size_t i = 0; i < places.size(); ++i) sequences[places[i]] = moved[i];
}

}  // namespace kvik
