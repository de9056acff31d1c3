#include "base/memory_region.h"

#include <sys/mman.h>

#include <utility>

namespace kvik {

std::optional<MemoryRegion> MemoryRegion::take(size_t n_bytes) {
  if (n_bytes == 0) return MemoryRegion();
  void* const data = ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return std::nullopt;
  return MemoryRegion(static_cast<std::byte*>(data), n_bytes);
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(n_bytes_, other.n_bytes_);
  return *this;
}

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) ::munmap(data_, n_bytes_);
}

}  // namespace kvik
