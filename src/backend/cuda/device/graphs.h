#pragma once

#include <vector>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Submits lists of launches. A list is submitted as a graph if an earlier step had a list with the
// same kernels, in the same order, at the same place; only launches that differ are updated. A list
// that occurs for the first time is submitted launch by launch, and so are all lists if graphs
// fail. One thread.
class Graphs {
 public:
  explicit Graphs(Device& device) : device_(device) {}

  // place: number of lists that were submitted earlier in the step.
  Result<void> run(const LaunchList& launches, uint32_t place);

 private:
  static constexpr size_t kMaxGraphs = 128;
  static constexpr size_t kMinGraphLaunches = 4;  // shorter lists do not benefit from a graph

  struct Known {
    uint32_t place = 0;
    LaunchList launches = {};  // launches of the graph, or of the first occurrence
    std::unique_ptr<DeviceGraph> graph = nullptr;  // null until the list occurs a second time
    uint64_t used_at = 0;
  };
  Known& find(const LaunchList& launches, uint32_t place);
  Result<void> update_graph(Known& known, const LaunchList& launches);
  Result<void> start_each(const LaunchList& launches);

  Device& device_;
  bool makes_graphs_ = true;
  std::vector<Known> known_;
  uint64_t now_ = 0;
};

}  // namespace kvik::cuda
