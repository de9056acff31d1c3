#include "base/memory_reserve.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace kvik {
namespace {

// Larger than what malloc caches by exact size, so that any small request can be cut from one.
constexpr size_t kChunkBytes = 8192;

std::atomic<size_t> wanted_bytes{0};
std::atomic<void*> held{nullptr};
thread_local bool keeps_chunks = false;
thread_local std::array<void*, 64> chunks{};  // of this thread

// Called by operator new where malloc has nothing to give; it tries again when this returns.
void let_go() {
  if (void* const memory = held.exchange(nullptr)) return std::free(memory);
  for (void*& chunk : chunks) {
    if (chunk) return std::free(std::exchange(chunk, nullptr));
  }
  throw std::bad_alloc();
}

// Returns whether the calling thread has all the chunks that it keeps.
bool restore_chunks() {
  bool has_all = true;
  for (void*& chunk : chunks) {
    if (keeps_chunks && !chunk) chunk = std::malloc(kChunkBytes);
    has_all = has_all && (!keeps_chunks || chunk);
  }
  return has_all;
}

}  // namespace

void MemoryReserve::keep(size_t n_bytes) {
  size_t before = wanted_bytes.load();
  while (before < n_bytes && !wanted_bytes.compare_exchange_weak(before, n_bytes)) continue;
  std::set_new_handler(let_go);
  static_cast<void>(restore());
}

bool MemoryReserve::restore() {
  const bool has_chunks = restore_chunks();
  const size_t n_bytes = wanted_bytes.load();
  if (n_bytes == 0 || held.load()) return has_chunks;
  void* const memory = std::malloc(n_bytes);
  if (!memory) return false;
  void* expected = nullptr;
  if (!held.compare_exchange_strong(expected, memory)) std::free(memory);
  return has_chunks;
}

void MemoryReserve::keep_for_this_thread() {
  keeps_chunks = true;
  static_cast<void>(restore_chunks());
}

}  // namespace kvik
