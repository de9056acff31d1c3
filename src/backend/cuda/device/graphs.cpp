#include "backend/cuda/device/graphs.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"

namespace kvik::cuda {
namespace {

bool same_kernels(const LaunchList& a, const LaunchList& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].code != b[i].code) return false;
  }
  return true;
}

bool same_call(const Launch& a, const Launch& b) {
  return a.grid == b.grid && std::memcmp(a.task.data(), b.task.data(), a.task.size()) == 0;
}

}  // namespace

// Returns the entry of a known list, or a new entry, which replaces the least recently used one if
// there are too many.
Graphs::Known& Graphs::find(const LaunchList& launches, uint32_t place) {
  for (Known& known : known_) {
    if (known.place == place && same_kernels(known.launches, launches)) return known;
  }
  if (known_.size() < kMaxGraphs) known_.emplace_back();
  Known& oldest = *std::ranges::min_element(known_, {}, &Known::used_at);
  oldest = {.place = place};
  return oldest;
}

Result<void> Graphs::start_each(const LaunchList& launches) {
  for (size_t i = 0; i < launches.size(); ++i) TRY(device_.start(launches[i]));
  return {};
}

Result<void> Graphs::update_graph(Known& known, const LaunchList& launches) {
  if (!known.graph) {
    // Set before the graph, so that the launches and the graph agree even if this fails.
    known.launches = LaunchList(launches);
    TRY_ASSIGN(known.graph, device_.make_graph(launches));
    return {};
  }
  for (size_t i = 0; i < launches.size(); ++i) {
    if (same_call(known.launches[i], launches[i])) continue;
    TRY(device_.change(*known.graph, i, launches[i]));
    known.launches.change(i, launches[i]);
  }
  return {};
}

Result<void> Graphs::run(const LaunchList& launches, uint32_t place) {
  if (!makes_graphs_ || launches.size() < kMinGraphLaunches) return start_each(launches);
  Known& known = find(launches, place);
  known.used_at = ++now_;
  if (known.launches.size() == 0) {
    known.launches = LaunchList(launches);
    return start_each(launches);
  }
  if (const Result<void> done = update_graph(known, launches); !done) {
    // Graphs are optional. If the device itself has failed, the next call reports it.
    log::warn("{}: kernels are launched one by one instead of as CUDA graphs",
              done.error().message);
    makes_graphs_ = false;
    known_.clear();
    return start_each(launches);
  }
  return device_.run(*known.graph, launches.size());
}

}  // namespace kvik::cuda
