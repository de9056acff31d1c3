#pragma once

#include <atomic>
#include <thread>

#include "backend/cuda/device/graphs.h"
#include "backend/cuda/device/tables.h"

namespace kvik::cuda {

// Submits the work of one thread to a device, in order. Within a step, launches are deferred until
// their results are needed and then submitted together: first the lists that they read (Tables), in
// one copy, then the launches, as a graph if possible (Graphs). Outside a step each launch is
// submitted at once.
class Stream {
 public:
  Stream(Device& device, Tables& tables) : device_(device), tables_(tables), graphs_(device) {}

  const DeviceInfo& info() const { return device_.info(); }

  // Begins a step on the calling thread: its launches are deferred from now on.
  void begin_step();
  // Submits deferred launches, ends the step, and waits until all work is done.
  Result<void> wait();
  // Ends the step and drops deferred launches.
  void abandon_step();

  // Launches a kernel; does nothing if the grid is empty. The kernel may read lists of `tables`
  // that were put since the step began or, outside a step, since the last wait().
  template <class Task>
  Result<void> launch(const Kernel<Task>& kernel, const Grid& grid, Task task) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return {};
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&task);  // so that equal tasks have equal bytes
#endif
    return launch({.name = kernel.name,
                   .code = kernel.code,
                   .grid = grid,
                   .task = std::as_bytes(std::span(&task, 1))});
  }

  // Submits deferred launches before other work that may depend on them. Does nothing on other
  // threads, because their work does not depend on deferred launches.
  Result<void> submit_deferred();

 private:
  // Maximum number of lists put outside steps before their memory is reused.
  static constexpr size_t kMaxLists = 64;

  Result<void> launch(const Launch& launch);

  Device& device_;
  Tables& tables_;
  Graphs graphs_;
  std::atomic<std::thread::id> thread_;  // the thread that began the step; empty outside a step
  uint32_t n_submitted_lists_ = 0;       // lists submitted so far in this step
  LaunchList held_;
};

}  // namespace kvik::cuda
