#include "constrain/object_needs.h"

#include <algorithm>
#include <array>
#include <bit>

namespace kvik::constrain {
namespace {

constexpr uint32_t kNever = ~uint32_t{0};

// The minimum number of properties in addition to the missing ones, by the set of witnesses
// present.
using Costs = std::array<uint32_t, 256>;

void lower(uint32_t& cost, uint32_t to) { cost = std::min(cost, to); }

}  // namespace

std::optional<uint32_t> n_needed(const GrammarParts& parts, const ObjectParts& object,
                                 const ObjectProgress& place) {
  uint32_t n_missing = 0;
  for (const uint32_t word : place.missing) n_missing += static_cast<uint32_t>(std::popcount(word));
  const uint32_t all = object.all_witnesses();
  if (place.witnesses == all) return n_missing;
  Costs costs;
  costs.fill(kNever);
  costs[place.witnesses] = 0;
  const auto take = [&](const std::vector<ObjectForm::Witness>& also, uint32_t cost) {
    Costs next = costs;
    for (const auto& [value, is] : also) {
      if (!parts.node(value).productive) continue;
      for (uint32_t had = 0; had <= all; ++had) {
        if (costs[had] != kNever) lower(next[had | is], costs[had] + cost);
      }
    }
    costs = next;
  };
  for (size_t i = 0; i < object.names.size(); ++i) {
    if (has_bit(place.seen, i) || object.also[i].empty()) continue;
    take(object.also[i], has_bit(place.missing, i) ? 0 : 1);
  }
  // An object may have several unlisted names.
  for (uint32_t n = 0; n < object.n_witnesses; ++n) {
    for (const ObjectForm::Others& others : object.others) take(others.also, 1);
  }
  if (costs[all] == kNever) return {};
  return n_missing + costs[all];
}

}  // namespace kvik::constrain
