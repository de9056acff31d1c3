#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace kvik {

// Memory straight from the system: none of it is resident before it is touched, and all of it goes
// back at once, which freed memory of the heap does when it likes.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  // std::nullopt where the system has not so much.
  static std::optional<MemoryRegion> take(size_t n_bytes);

  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  ~MemoryRegion();

  // At the border of a page of the system's.
  std::span<std::byte> bytes() const { return {data_, n_bytes_}; }

 private:
  MemoryRegion(std::byte* data, size_t n_bytes) : data_(data), n_bytes_(n_bytes) {}

  std::byte* data_ = nullptr;
  size_t n_bytes_ = 0;
};

}  // namespace kvik
