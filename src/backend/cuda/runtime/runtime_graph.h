#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "backend/cuda/device/device.h"
#include "backend/cuda/runtime/checked.h"

namespace kvik::cuda {

// A CUDA graph with one chain of kernels.
class RuntimeGraph final : public DeviceGraph {
 public:
  RuntimeGraph(int device, cudaStream_t stream) : device_(device), stream_(stream) {}
  ~RuntimeGraph() override {
    if (runnable_) cudaGraphExecDestroy(runnable_);
    if (graph_) cudaGraphDestroy(graph_);
  }

  Result<void> make(const LaunchList& launches) {
    TRY(checked(cudaGraphCreate(&graph_, 0), "a graph"));
    nodes_.resize(launches.size());
    for (size_t i = 0; i < launches.size(); ++i) {
      const Launch launch = launches[i];
      void* task = const_cast<std::byte*>(launch.task.data());
      const cudaKernelNodeParams parameters = parameters_of(launch, &task);
      const cudaGraphNode_t* before = i > 0 ? &nodes_[i - 1] : nullptr;
      TRY(checked(cudaGraphAddKernelNode(&nodes_[i], graph_, before, i > 0, &parameters),
                  launch.name));
    }
    return checked(cudaGraphInstantiate(&runnable_, graph_, 0), "a graph");
  }

  Result<void> change(size_t i, const Launch& launch) override {
    void* task = const_cast<std::byte*>(launch.task.data());
    const cudaKernelNodeParams parameters = parameters_of(launch, &task);
    return checked(cudaGraphExecKernelNodeSetParams(runnable_, nodes_[i], &parameters),
                   launch.name);
  }
  Result<void> run() override {
    TRY(checked(cudaSetDevice(device_), "selecting the device"));
    return checked(cudaGraphLaunch(runnable_, stream_), "a graph");
  }

 private:
  // CUDA copies the task when a node is added or changed, so a pointer to the launch's bytes
  // suffices.
  static cudaKernelNodeParams parameters_of(const Launch& launch, void** task) {
    cudaKernelNodeParams parameters = {};
    parameters.func = const_cast<void*>(launch.code.function());
    parameters.gridDim = dim3(launch.grid.x, launch.grid.y, launch.grid.z);
    parameters.blockDim = dim3(launch.grid.n_threads);
    parameters.kernelParams = task;
    return parameters;
  }

  const int device_;
  const cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t runnable_ = nullptr;
  std::vector<cudaGraphNode_t> nodes_;
};

}  // namespace kvik::cuda
