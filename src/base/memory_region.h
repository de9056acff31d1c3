#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace kvik {

// Memory mapped from the system. Unlike heap memory, it is not resident before it is touched, and
// it is returned to the system as a whole when it is freed.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  // Returns std::nullopt if the system refuses.
  static std::optional<MemoryRegion> take(size_t n_bytes);

  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  ~MemoryRegion();

  // Aligned to a system page.
  std::span<std::byte> bytes() const { return {data_, n_bytes_}; }

 private:
  MemoryRegion(std::byte* data, size_t n_bytes) : data_(data), n_bytes_(n_bytes) {}

  std::byte* data_ = nullptr;
  size_t n_bytes_ = 0;
};

}  // namespace kvik
