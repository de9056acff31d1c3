#include "backend/cuda/device/graphs.h"

#include <algorithm>

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
  return a.grid == b.grid && std::ranges::equal(a.task, b.task);
}

}  // namespace

Graphs::Known* Graphs::find(const LaunchList& launches) {
  for (Known& known : known_) {
    if (same_kernels(known.launches, launches)) return &known;
  }
  return nullptr;
}

Result<void> Graphs::start_each(const LaunchList& launches) {
  for (size_t i = 0; i < launches.size(); ++i) TRY(device_.start(launches[i]));
  return {};
}

Result<void> Graphs::bring_up_to_date(Known& known, const LaunchList& launches) {
  for (size_t i = 0; i < launches.size(); ++i) {
    if (same_call(known.launches[i], launches[i])) continue;
    TRY(device_.change(*known.graph, i, launches[i]));
    known.launches.change(i, launches[i]);
  }
  return {};
}

Result<void> Graphs::run(const LaunchList& launches) {
  if (!makes_graphs_ || launches.size() < kFewLaunches) return start_each(launches);
  ++now_;
  Known* known = find(launches);
  if (!known) {
    if (known_.size() < kMostGraphs) known_.emplace_back();
    known = &*std::ranges::min_element(known_, {}, &Known::used_at);
    *known = {.launches = launches, .graph = nullptr, .used_at = now_};
    return start_each(launches);
  }
  known->used_at = now_;
  if (known->graph) {
    TRY(bring_up_to_date(*known, launches));
  } else {
    Result<std::unique_ptr<DeviceGraph>> graph = device_.make_graph(launches);
    if (!graph) {  // it can do without
      log::warn("{}: launches are handed over one by one", graph.error().message);
      makes_graphs_ = false;
      return start_each(launches);
    }
    *known = {.launches = launches, .graph = std::move(*graph), .used_at = now_};
  }
  return device_.run(*known->graph, launches.size());
}

}  // namespace kvik::cuda
