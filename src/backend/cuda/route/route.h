#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/route/routed_lists.h"

namespace kvik::cuda {

// Routing of rows to experts, computed on the device: the host knows the number of choices only,
// and neither waits for them nor launches kernels depending on them. Owns the lists, which grow to
// the maximum needed and are never freed. One thread.
class Routing {
 public:
  Routing(Stream& stream, CudaMemory& memory, Tables& tables, const RouteKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implements Backend::route(); returns false if there are more experts than the kernels support.
  bool run(const RouteShape& shape, Rows scores);
  // Returns the lists of the last run(), valid until the next one.
  const RoutedLists& lists() const { return lists_; }

  // Memory of lists within the limits, and its allocation.
  static uint64_t scratch_bytes(const WorkLimits& limits);
  void reserve(const WorkLimits& limits) { memory_.grow(buffer_, scratch_bytes(limits)); }

 private:
  Stream& stream_;
  CudaMemory& memory_;
  Tables& tables_;
  const RouteKernels& kernels_;
  Buffer buffer_;
  RoutedLists lists_;
};

}  // namespace kvik::cuda
