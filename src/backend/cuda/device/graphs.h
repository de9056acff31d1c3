#pragma once

#include <vector>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Submits lists of launches: as a graph if the same kernels occurred in the same order at the same
// place of an earlier step, updating only what differs; individually the first time, and if the
// device does not support graphs. One thread.
class Graphs {
 public:
  explicit Graphs(Device& device) : device_(device) {}

  // place: number of lists submitted before in the step.
  Result<void> run(const LaunchList& launches, uint32_t place);

 private:
  static constexpr size_t kMostGraphs = 128;
  static constexpr size_t kFewLaunches = 4;  // too few to benefit

  struct Known {
    uint32_t place = 0;
    LaunchList launches = {};                      // as in the graph, or as they first occurred
    std::unique_ptr<DeviceGraph> graph = nullptr;  // null: occurred once so far
    uint64_t used_at = 0;
  };
  Known& find(const LaunchList& launches, uint32_t place);
  Result<void> bring_up_to_date(Known& known, const LaunchList& launches);
  Result<void> start_each(const LaunchList& launches);

  Device& device_;
  bool makes_graphs_ = true;
  std::vector<Known> known_;
  uint64_t now_ = 0;
};

}  // namespace kvik::cuda
