#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/check.h"

namespace kvik {

// Host memory aligned for direct file I/O. Touches no physical memory before it is written.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  AlignedBytes(size_t n_bytes, size_t alignment)
      : data_(static_cast<std::byte*>(
            std::aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment))),
        n_bytes_(n_bytes) {
    CHECK(data_ != nullptr);
  }

  std::span<std::byte> span() const { return {data_.get(), n_bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t n_bytes_ = 0;
};

}  // namespace kvik
