#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "host_run/grid.h"

namespace kvik::host_run {

// The accesses to elements of some shared memory of one block: the last writer and the last reader
// of each. Two threads that access an element, one of them writing, need a barrier of the block
// between the accesses, or of their warp if both are in it.
class SharedLog {
 public:
  SharedLog(uint32_t n_elements, uint32_t element_bytes)
      : element_bytes_(element_bytes), elements_(n_elements) {}

  // Accesses of the running thread to n elements from `first` on at once, which must be aligned for
  // that.
  void read(uint32_t first, uint32_t n);
  void write(uint32_t first, uint32_t n);

 private:
  // An access to an element: its thread, and the barriers of block and warp that it had passed.
  struct Use {
    uint32_t thread = kNoThread;
    uint32_t barriers = 0, warp_syncs = 0;
  };
  struct Element {
    Use writer, reader, other_reader;  // `other` stands for all readers but the last
    bool are_others_of_several_warps = false;
  };
  static constexpr uint32_t kNoThread = UINT32_MAX;

  void begin_access(uint32_t first, uint32_t n);
  void check_order(const Use& earlier, uint32_t element, const char* does,
                   bool is_of_several) const;

  const uint32_t element_bytes_;
  std::vector<Element> elements_;
  uint64_t block_ = 0;
};

// An array in a block's shared memory, as kernels use it: values go in and out by value. `V` may be
// several elements that are read or written at once.
template <class T, uint32_t kSize>
class Shared {
 public:
  T get(uint32_t i) { return get_as<T>(i); }
  void set(uint32_t i, T value) { set_as<T>(i, value); }

  template <class V>
  V get_as(uint32_t i) {
    log_.read(i, kElements<V>);
    V value;
    std::memcpy(&value, bytes_ + size_t{i} * sizeof(T), sizeof(V));
    return value;
  }
  template <class V>
  void set_as(uint32_t i, V value) {
    log_.write(i, kElements<V>);
    std::memcpy(bytes_ + size_t{i} * sizeof(T), &value, sizeof(V));
  }

 private:
  template <class V>
  static constexpr uint32_t kElements = sizeof(V) / sizeof(T);

  alignas(16) unsigned char bytes_[size_t{kSize} * sizeof(T)];
  SharedLog log_ = {kSize, sizeof(T)};
};

}  // namespace kvik::host_run
