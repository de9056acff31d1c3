#pragma once

#include <atomic>
#include <cstdint>

#include "backend/memory.h"

namespace kvik {

// Choice whether to request 2 MiB pages from the kernel. They cause fewer TLB misses while weights
// and KV pages are read, and suit memory that is touched 2 MiB at a time.
enum class HugePages { kOff, kOn };

// Host RAM. Buffers of 2 MiB and more are mapped separately, aligned to huge pages, and take no
// physical memory before they are written. Smaller buffers are zeroed heap memory aligned to 64
// bytes. The end of a buffer after its last whole 2 MiB uses small pages, so that resident memory
// equals the requested memory.
class HostMemory final : public Memory {
 public:
  explicit HostMemory(HugePages huge_pages = HugePages::kOn) : huge_pages_(huge_pages) {}

  Buffer allocate(size_t bytes) override;
  void copy_in(std::byte* destination, std::span<const std::byte> host) override;
  void copy_out(std::span<std::byte> host, const std::byte* source) override;
  void copy(std::byte* destination, const std::byte* source, size_t bytes) override;
  void clear(std::byte* destination, size_t bytes) override;
  void discard(std::byte* data, size_t bytes) override;
  std::unique_ptr<CopyLane> make_lane(std::vector<std::span<std::byte>> slots) override;

  // Returns the total size of the buffers that exist.
  uint64_t held_bytes() const { return held_bytes_.load(std::memory_order_relaxed); }

 private:
  void free(std::byte* data, size_t bytes) override;
  std::byte* map_zero_pages(size_t bytes) const;

  const HugePages huge_pages_;
  std::atomic<uint64_t> held_bytes_ = 0;
};

}  // namespace kvik
