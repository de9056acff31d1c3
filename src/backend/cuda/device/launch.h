#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "backend/cuda/kernel/grid.h"

namespace kvik::cuda {

// A kernel launch: the kernel, its grid, and the bytes of its task (argument). Does not own the
// bytes.
struct Launch {
  const char* name = nullptr;
  KernelCode code;
  Grid grid;
  std::span<const std::byte> task;
};

// A sequence of launches. Owns the bytes of their tasks.
class LaunchList {
 public:
  void add(const Launch& launch) {
    const size_t first = tasks_.size();
    // Tasks begin at multiples of the largest alignment, as their types require.
    constexpr size_t kUnit = alignof(std::max_align_t);
    tasks_.resize((first + launch.task.size() + kUnit - 1) / kUnit * kUnit);
    std::memcpy(tasks_.data() + first, launch.task.data(), launch.task.size());
    entries_.push_back({launch.name, launch.code, launch.grid, first, launch.task.size()});
  }
  void clear() {
    entries_.clear();
    tasks_.clear();
  }
  // Replaces launch i by one of the same kernel. The task has the same size.
  void change(size_t i, const Launch& launch) {
    entries_[i].grid = launch.grid;
    std::memcpy(tasks_.data() + entries_[i].first_byte, launch.task.data(), launch.task.size());
  }

  size_t size() const { return entries_.size(); }
  Launch operator[](size_t i) const {
    const Entry& entry = entries_[i];
    return {.name = entry.name,
            .code = entry.code,
            .grid = entry.grid,
            .task = std::span(tasks_).subspan(entry.first_byte, entry.n_bytes)};
  }

 private:
  struct Entry {
    const char* name;
    KernelCode code;
    Grid grid;
    size_t first_byte, n_bytes;
  };
  std::vector<Entry> entries_;
  std::vector<std::byte> tasks_;
};

}  // namespace kvik::cuda
