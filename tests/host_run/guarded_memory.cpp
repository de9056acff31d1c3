#include "host_run/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(data, bytes) (static_cast<void>(data), static_cast<void>(bytes))
#endif

namespace kvik::host_run {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint64_t kPage = 4096;
constexpr int kGarbage = 0x7b;

uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

// Includes at least one unit after it that belongs to no buffer.
uint64_t room_of(size_t bytes) { return round_up(bytes, kAlignment) + kAlignment; }

}  // namespace

GuardedMemory::GuardedMemory(uint64_t bytes) : n_bytes_(round_up(2 * bytes + kPage, kPage)) {
  void* mapped =
      mmap(nullptr, n_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(mapped != MAP_FAILED);
  begin_ = static_cast<std::byte*>(mapped);
}

GuardedMemory::~GuardedMemory() {
  ASAN_UNPOISON_MEMORY_REGION(begin_, n_used_);
  munmap(begin_, n_bytes_);
}

// Into the first gap that holds it.
std::byte* GuardedMemory::allocate(size_t bytes) {
  uint64_t at = 0;
  for (const auto& [first, n] : buffers_) {
    if (first - at >= room_of(bytes)) break;
    at = first + room_of(n);
  }
  if (at + room_of(bytes) > n_bytes_) return nullptr;
  buffers_[at] = bytes;
  held_bytes_ += bytes;
  n_used_ = std::max(n_used_, round_up(at + room_of(bytes), kPage));
  std::byte* data = begin_ + at;
  ASAN_UNPOISON_MEMORY_REGION(data, room_of(bytes));
  const Opened opened(*this);
  std::memset(data, kGarbage, room_of(bytes));
  ASAN_POISON_MEMORY_REGION(data + bytes, room_of(bytes) - bytes);
  return data;
}

bool GuardedMemory::free(const std::byte* data) {
  const auto found = buffers_.find(static_cast<uint64_t>(data - begin_));
  if (data < begin_ || found == buffers_.end()) return false;
  ASAN_POISON_MEMORY_REGION(data, room_of(found->second));
  held_bytes_ -= found->second;
  buffers_.erase(found);
  return true;
}

bool GuardedMemory::has(const std::byte* data, size_t bytes) const {
  if (data < begin_) return false;
  const auto at = static_cast<uint64_t>(data - begin_);
  const auto next = buffers_.upper_bound(at);
  if (next == buffers_.begin()) return false;
  const auto& [first, n] = *std::prev(next);
  return at + bytes <= first + n;
}

void GuardedMemory::protect(int protection) {
  if (n_used_ > 0) CHECK(mprotect(begin_, n_used_, protection) == 0);
}

void GuardedMemory::open() {
  ++n_open_;
  protect(PROT_READ | PROT_WRITE);
}

void GuardedMemory::close() {
  if (--n_open_ == 0) protect(PROT_NONE);
}

}  // namespace kvik::host_run
