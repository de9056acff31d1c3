#pragma once

// Makes the entries of kernel tables (such as MatmulKernels) from kernels. start() uses the CUDA
// runtime; in tests it runs the kernel on the host, thread by thread.

#include "backend/cuda/kernel/grid.h"

namespace kvik::cuda {

#ifdef __CUDACC__

template <class Task, void (*kKernel)(Task)>
const void* function() {
  return reinterpret_cast<const void*>(kKernel);
}

template <class Task, void (*kKernel)(Task)>
int start(const Grid& grid, const void* task, void* stream) {
  void* arguments[] = {const_cast<void*>(task)};
  return cudaLaunchKernel(function<Task, kKernel>(), dim3(grid.x, grid.y, grid.z),
                          dim3(grid.n_threads), arguments, 0, static_cast<cudaStream_t>(stream));
}

#else

template <class Task, void (*kKernel)(Task)>
const void* function() {
  return nullptr;
}

template <class Task, void (*kKernel)(Task)>
int start(const Grid& grid, const void* task, void*) {
  return host_run::start_grid({grid.x, grid.y, grid.z}, grid.n_threads,
                              [&] { kKernel(*static_cast<const Task*>(task)); });
}

#endif

template <class Task, void (*kKernel)(Task)>
constexpr Kernel<Task> kernel_of(const char* name) {
  return {name, {start<Task, kKernel>, function<Task, kKernel>}};
}

}  // namespace kvik::cuda
