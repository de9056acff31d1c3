#pragma once

#include <atomic>
#include <thread>

#include "backend/cuda/device/graphs.h"
#include "backend/cuda/device/tables.h"

namespace kvik::cuda {

// The work of one thread on a device, in order. Within a step launches are held back until
// something needs what they leave, and are handed over together: first the lists that they read
// (Tables), in one copy, then they themselves, as a graph where they can be (Graphs). Outside a
// step each is handed over at once.
class Stream {
 public:
  Stream(Device& device, Tables& tables) : device_(device), tables_(tables), graphs_(device) {}

  const DeviceInfo& info() const { return device_.info(); }

  // From here on launches are held back.
  void begin_step();
  // Hands over what is held back, ends the step, and returns when all is done.
  Result<void> wait();
  // Ends the step; what is held back of it is never done.
  void abandon_step();

  // An empty grid is none. Kernels read lists of `tables` that were put since the step began, or,
  // outside a step, since this thread last waited.
  template <class Task>
  Result<void> launch(const Kernel<Task>& kernel, const Grid& grid, Task task) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return {};
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&task);  // so that equal tasks are equal bytes
#endif
    return launch({.name = kernel.name,
                   .code = kernel.code,
                   .grid = grid,
                   .task = std::as_bytes(std::span(&task, 1))});
  }

  // Before anything else is handed to the device that may need what is held back: hands it over.
  // Nothing on other threads: theirs never does.
  Result<void> hand_over();

 private:
  // Lists outside steps beyond which their places are used again.
  static constexpr size_t kMostLists = 64;

  Result<void> launch(const Launch& launch);

  Device& device_;
  Tables& tables_;
  Graphs graphs_;
  std::atomic<std::thread::id> thread_;  // that began the step; none: no step
  uint32_t n_handed_over_ = 0;           // lists, in this step
  LaunchList held_;
};

}  // namespace kvik::cuda
