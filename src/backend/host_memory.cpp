#include "backend/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "backend/synchronous_lane.h"
#include "base/check.h"

namespace kvik {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallPage = 4096;
constexpr size_t kVectorBytes = 64;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps zeroed memory. On failure behaves like operator new: calls the new-handler, which may free
// memory, and tries again; throws std::bad_alloc if there is no handler.
void* map_pages(size_t bytes) {
  for (;;) {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped != MAP_FAILED) return mapped;
    const std::new_handler let_go = std::get_new_handler();
    if (!let_go) return ::operator new (size_t{1} << 62);  // throws: no system has that much
    let_go();
  }
}

}  // namespace

// Maps memory aligned to a huge page: maps one huge page more than needed and unmaps the excess at
// both ends.
std::byte* HostMemory::map_zero_pages(size_t bytes) const {
  const size_t kept = round_up(bytes, kSmallPage);
  auto* begin = static_cast<std::byte*>(map_pages(kept + kHugePage));
  const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (head > 0) munmap(begin, head);
  if (head < kHugePage) munmap(begin + head + kept, kHugePage - head);
  begin += head;
  // The advice affects only speed, so errors are ignored.
  const size_t whole = kept / kHugePage * kHugePage;
  if (huge_pages_ == HugePages::kOn) {
    madvise(begin, whole, MADV_HUGEPAGE);
    if (kept > whole) madvise(begin + whole, kept - whole, MADV_NOHUGEPAGE);
  } else {
    madvise(begin, kept, MADV_NOHUGEPAGE);
  }
  return begin;
}

// Throws std::bad_alloc if there is no memory. This fails the request, not the process.
Buffer HostMemory::allocate(size_t bytes) {
  if (bytes == 0) return {};
  CHECK(bytes < (size_t{1} << 47));
  if (bytes >= kHugePage) {
    std::byte* const pages = map_zero_pages(bytes);
    held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return Buffer(*this, pages, bytes);
  }
  const size_t rounded = round_up(bytes, kVectorBytes);
  void* data = ::operator new (rounded, std::align_val_t{kVectorBytes});
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  std::memset(data, 0, rounded);
  return Buffer(*this, static_cast<std::byte*>(data), bytes);
}

void HostMemory::copy_in(std::byte* destination, std::span<const std::byte> host) {
  if (!host.empty()) std::memcpy(destination, host.data(), host.size());
}

void HostMemory::copy_out(std::span<std::byte> host, const std::byte* source) {
  if (!host.empty()) std::memcpy(host.data(), source, host.size());
}

void HostMemory::copy(std::byte* destination, const std::byte* source, size_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, bytes);
}

std::unique_ptr<CopyLane> HostMemory::make_lane(std::vector<std::span<std::byte>> slots) {
  return std::make_unique<SynchronousLane>(*this, std::move(slots));
}

void HostMemory::clear(std::byte* destination, size_t bytes) {
  if (bytes > 0) std::memset(destination, 0, bytes);
}

// Returns the whole system pages in the range. In a huge page they are returned under memory
// pressure at the latest.
void HostMemory::discard(std::byte* data, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const size_t head = round_up(address, kSmallPage) - address;
  if (bytes < head + kSmallPage) return;
  madvise(data + head, (bytes - head) / kSmallPage * kSmallPage, MADV_DONTNEED);
}

void HostMemory::free(std::byte* data, size_t bytes) {
  held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes >= kHugePage) {
    munmap(data, round_up(bytes, kSmallPage));
  } else {
    ::operator delete (data, std::align_val_t{kVectorBytes});
  }
}

}  // namespace kvik
