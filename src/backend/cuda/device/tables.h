#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "backend/cuda/device/cuda_memory.h"

namespace kvik::cuda {

// Whether all bytes of an element mean something, so that equal lists are equal bytes.
template <class T>
inline constexpr bool kIsDense = std::has_unique_object_representations_v<T>;
template <>
inline constexpr bool kIsDense<float> = true;

// Lists that operations are called with, page tables and row numbers, in the device's memory. The
// same list is brought there once: what all layers of a step are called with travels for the first
// one, and a list that does not change from step to step not at all. The newest lists are kept.
// One thread.
class Tables {
 public:
  explicit Tables(CudaMemory& memory) : memory_(memory) {}

  // Valid until kMostLists others were put: for the operations of one call.
  template <class T>
  const T* put(std::span<const T> list) {
    static_assert(kIsDense<T>);
    return reinterpret_cast<const T*>(put_bytes(std::as_bytes(list)));
  }

 private:
  static constexpr size_t kMostLists = 256;

  struct List {
    std::vector<std::byte> bytes;
    Buffer on_device;
    uint64_t used_at = 0;
  };
  const std::byte* put_bytes(std::span<const std::byte> bytes);

  CudaMemory& memory_;
  std::vector<List> lists_;
  uint64_t now_ = 0;
};

}  // namespace kvik::cuda
