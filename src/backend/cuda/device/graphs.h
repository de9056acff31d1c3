#pragma once

#include <vector>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Hands lists of launches to a device: as a graph where the same kernels came in the same order at
// the same place of a step before, of which only what differs is changed; singly the first time,
// and where the device makes no graphs. One thread.
class Graphs {
 public:
  explicit Graphs(Device& device) : device_(device) {}

  // place: how many lists of the step came before.
  Result<void> run(const LaunchList& launches, uint32_t place);

 private:
  static constexpr size_t kMostGraphs = 128;
  static constexpr size_t kFewLaunches = 4;  // too few to gain by it

  struct Known {
    uint32_t place = 0;
    LaunchList launches = {};                      // as the graph has them, or as they came first
    std::unique_ptr<DeviceGraph> graph = nullptr;  // null: they came once
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
