#pragma once

#include <cstdint>

namespace kvik::cuda {

// Grid of thread blocks of a kernel, and the number of threads per block (a multiple of 32).
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  uint32_t n_threads = 32;
  friend bool operator==(const Grid&, const Grid&) = default;
};

// Maximum of a grid's second axis. For more rows, a block processes every n-th row, starting at its
// own.
inline constexpr uint32_t kMaxGridRows = 65535;

constexpr uint32_t grid_rows(uint32_t n_rows) {
  return n_rows < kMaxGridRows ? n_rows : kMaxGridRows;
}

constexpr uint32_t ceil_div(uint32_t n, uint32_t unit) { return n / unit + (n % unit != 0); }

// A kernel, which takes one argument by value (its task). start() launches it and returns 0 or the
// device's error code; function() identifies it in CUDA graphs.
struct KernelCode {
  int (*start)(const Grid& grid, const void* task, void* stream) = nullptr;
  const void* (*function)() = nullptr;
  friend bool operator==(const KernelCode&, const KernelCode&) = default;
};

template <class Task>
struct Kernel {
  const char* name = nullptr;
  KernelCode code;
};

}  // namespace kvik::cuda
