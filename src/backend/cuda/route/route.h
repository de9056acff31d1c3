#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/route/routed_lists.h"

namespace kvik::cuda {

// Routes rows to experts on the device. The host knows only the number of choices: it does not wait
// for the choices, and the kernels that it launches do not depend on them. Owns the buffer of
// lists, which grows to the maximum needed and is never freed. One thread.
class Routing {
 public:
  Routing(Stream& stream, CudaMemory& memory, Tables& tables, const RouteKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // Implements Backend::route(). Returns false if there are more experts, or more experts per row,
  // than the kernels support.
  bool run(const RouteShape& shape, Rows scores);
  // Returns the lists of the last run(). They are valid until the next one.
  const RoutedLists& lists() const { return lists_; }

  // Return the bytes of the lists within the limits, and allocate them.
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
