#pragma once

#include "backend/backend.h"
#include "backend/cuda/device/cuda_memory.h"
#include "backend/cuda/route/routed_lists.h"

namespace kvik::cuda {

// Which experts rows go through, chosen on the device: the host knows how many choices there are,
// and neither waits for them nor launches anything by them. Owns the lists, which grow to the most
// that was needed and are never given back. One thread.
class Routing {
 public:
  Routing(Stream& stream, CudaMemory& memory, Tables& tables, const RouteKernels& kernels)
      : stream_(stream), memory_(memory), tables_(tables), kernels_(kernels) {}

  // As Backend has it; false of more experts than the kernels are for.
  bool run(const RouteShape& shape, Rows scores);
  // Of the last run(), valid until the next one.
  const RoutedLists& lists() const { return lists_; }

  // Bytes that lists within the limits need, and taking them now.
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
